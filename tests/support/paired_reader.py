"""Search a collection that is being written, and insist that every answer is one whole state.

Prints how many searches were made and how many different states were seen.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

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


def main(folder: str, stop: str, seed: str) -> None:
    chance = random.Random(int(seed))
    searches, states = 0, set()
    with Engine.open(folder) as engine:
        while not Path(stop).exists():
            query = chance.choice(["owl", "filler", '"owl token3"', "owl -token5", "token7 token8"])
            hits = engine.search(query, k=999, where=chance.choice(["", "n < 20"]))
            _check(hits)
            if query == "owl":
                states.add(tuple(sorted(hit.docid for hit in hits)))
            searches += 1
    sys.stdout.write(f"{searches} {len(states)}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
