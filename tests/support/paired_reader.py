"""Search a collection that is being written, and insist that every answer is one whole state.

It goes on until it has seen so many different states, or a file says that no more will come.
Prints how many it has seen.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

from paired_writer import SETTINGS

from quoth.engine.engine import Engine
from quoth.records import Hit


def _check(hits: tuple[Hit, ...]) -> None:
    docids = [hit.docid for hit in hits]
    assert len(set(docids)) == len(docids), f"found twice: {docids}"
    ones, others = ({each[1:] for each in docids if each[0] == side} for side in ("a", "b"))
    assert ones == others, f"half a pair: {ones ^ others}"
    texts: dict[str, set[str]] = {}
    for hit in hits:
        assert hit.passage is not None and f"token{hit.docid[1:]} " in hit.passage.text
        texts.setdefault(hit.docid[1:], set()).add(hit.passage.text)
    assert all(len(each) == 1 for each in texts.values()), f"two versions at once: {texts}"
    assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.docid))


def main(folder: str, stop: str, enough: str, seed: str) -> None:
    chance = random.Random(int(seed))
    states = set()
    with Engine.open(folder, settings=SETTINGS) as engine:
        while len(states) < int(enough) and not Path(stop).exists():
            query = chance.choice(["owl", "filler", '"owl token3"', "owl -token5", "token7 token8"])
            hits = engine.search(query, k=999, where=chance.choice(["", "n < 20"]))
            _check(hits)
            if query == "owl":
                states.add(tuple(sorted(hit.docid for hit in hits)))
    sys.stdout.write(f"{len(states)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
