"""Update a collection and die at one named step, as a power cut would, without any clean-up."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from quoth.collection.batch import Batch
from quoth.collection.database import Database
from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.index.lexical import writer as lexical_writer
from quoth.records import Document
from quoth.text.passages import cut_document
from quoth.vocabulary.statistics import Statistics


def _die(*_args: Any, **_kwargs: Any) -> None:
    os._exit(137)


def _die_after(owner: Any, name: str) -> None:
    original: Callable[..., Any] = getattr(owner, name)

    def call(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        _die()

    setattr(owner, name, call)


def _die_on_commit(store_run: Callable[..., Any], *, after: bool) -> Callable[..., Any]:
    def run(self: Database, sql: str, parameters: tuple[object, ...] = ()) -> Any:
        if sql == "COMMIT" and not after:
            _die()
        result = store_run(self, sql, parameters)
        if sql == "COMMIT" and after:
            _die()
        return result

    return run


class _Interposed:
    """A tantivy writer that dies before waiting for merges."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __getattr__(self, name: str) -> Any:
        return _die if name == "wait_merging_threads" else getattr(self._writer, name)


def _arm(step: str) -> None:
    writer = lexical_writer.LexicalWriter
    if step.startswith("store."):
        Database.run = _die_on_commit(Database.run, after=step.endswith("after_commit"))  # type: ignore[method-assign]
    elif step == "index.before_commit":
        writer.commit = _die  # type: ignore[method-assign]
    elif step == "index.before_merge":
        original = writer.commit

        def commit(self: Any, **kwargs: Any) -> None:
            self._writer = _Interposed(self._writer)
            original(self, **kwargs)

        writer.commit = commit  # type: ignore[method-assign]
    elif step == "index.before_record":
        lexical_writer.save_artifact = _die  # type: ignore[attr-defined]
    elif step == "index.after_record":
        _die_after(lexical_writer, "save_artifact")
    elif step == "statistics.before_commit":
        Statistics.commit = _die  # type: ignore[method-assign]
    elif step == "statistics.after_commit":
        _die_after(Statistics, "commit")
    elif step == "forget.before":
        Store.forget = _die  # type: ignore[assignment,method-assign]


def main(folder: str, step: str) -> None:
    engine = Engine.open(Path(folder))
    _arm(step)
    with engine._writing() as (store, config):
        cut = partial(cut_document, config=config.passages)
        with store._db.transaction():
            batch = Batch(store._db, ["d1", "new"], cut=cut)
            batch.put(Document("d1", {"text": ("night owl",)}))
            batch.put(Document("new", {"text": ("barn",)}))
            batch.write()
            live = store._live("d2")
            assert live is not None
            store._retire(live[0], store._log("remove", "d2", live[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
