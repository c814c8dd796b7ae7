"""Write to a collection at random until killed, saying what is being done and what is done."""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

from quoth.engine.engine import Engine
from quoth.records import Document

WORDS = ["owl", "barn", "night", "the", "flies", "over", "field"]


def _say(*values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def main(folder: str, seed: str) -> None:
    chance = random.Random(int(seed))
    engine = Engine.open(Path(folder))
    engine.add_documents([])
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while True:
        docids = [f"d{number}" for number in chance.sample(range(40), chance.randint(1, 6))]
        if chance.random() < 0.3:
            _say("doing", dict.fromkeys(docids))
            engine.remove(docids)
        else:
            texts = {
                docid: " ".join(chance.choices(WORDS, k=chance.randint(1, 20))) for docid in docids
            }
            _say("doing", texts)
            engine.add_documents(
                Document(docid, {"text": (text,)}) for docid, text in texts.items()
            )
        _say("done", {})


if __name__ == "__main__":
    main(*sys.argv[1:])
