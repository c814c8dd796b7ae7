"""Use a collection as somebody who may read it and write nothing, and say how that went.

The parent speaks to it line by line: each line names what to do next.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from quoth.errors import QuothError
from quoth.records import Document
from quoth.shards.opening import open_engine

NOBODY = 65534


def give_up_writing(folder: Path) -> None:
    """Become a user who may write nothing there; root's rights are given away for good."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    if os.getuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def main(folder: str) -> None:
    engine = open_engine(folder)
    give_up_writing(Path(folder))
    works = {
        "search": lambda: sorted(hit.docid for hit in engine.search("owl", k=999)),
        "status": lambda: engine.status()["documents"],
        "verify": lambda: engine.verify().lines(),
        "repair": lambda: engine.verify(repair=True).lines(),
        "add": lambda: engine.add_documents([Document("more", {"text": ("owl",)})]).added,
        "remove": lambda: engine.remove(["d1"]),
    }
    for line in sys.stdin:
        try:
            answer = [True, works[line.strip()]()]
        except QuothError as error:
            answer = [False, str(error)]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
