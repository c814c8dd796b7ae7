"""The commands that faults are injected into, and the small collections they start from."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from quoth.cli.main import main as run_command
from quoth.collection.shards import ShardSet, is_sharded, open_shards
from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.errors import NoCollection
from quoth.records import Document
from quoth.shards.opening import OpenedEngine, open_engine

WORDS = ("owl", "barn", "night", "river", "the", "flies", "three", "hunts", "raven", "hen")
BATCH = 4
NUM_SHARDS = 2
COLLECTION, OUT = "c.quoth", "out.quoth"
_NO_COMPACTING = ("--lexical.compact-share", "1.0")
_BATCHES = ("--collection.batch-documents", str(BATCH), "--no-encode")

State = frozenset[tuple[str, str]]
"""Every document with its text."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A command, what it starts from, and the states it may be stopped in."""

    name: str
    base: str
    arguments: Callable[[Path], Sequence[str]]
    makes: str = COLLECTION
    """The folder that it writes: where it must be as before or as after."""

    searcher: str = "lexical"
    changed: Sequence[tuple[str, str | None]] = ()
    """What it does to documents, in order, by batches of `BATCH`; None removes."""

    is_atomic: bool = True

    def states(self, before: State) -> list[State]:
        """List the states it may leave, from before to after: batches whole, in each shard."""
        texts, found = dict(before), [before]
        step = len(self.changed) if self.is_atomic else BATCH
        for start in range(0, len(self.changed), step or 1):
            batch = self.changed[start : start + step]
            if self.base == "shards":
                found += [_changed(texts, part) for part in _by_shard(batch)]
            found.append(_changed(texts, batch))
            texts = dict(found[-1])
        return found


def _changed(texts: Mapping[str, str], batch: Sequence[tuple[str, str | None]]) -> State:
    now = {docid: text for docid, text in {**texts, **dict(batch)}.items() if text is not None}
    return frozenset(now.items())


def _by_shard(
    batch: Sequence[tuple[str, str | None]],
) -> list[list[tuple[str, str | None]]]:
    """Part a batch by the shards that it goes to."""
    shard_of = ShardSet(Path(COLLECTION), "", NUM_SHARDS).shard_of
    return [[each for each in batch if shard_of(each[0]) == at] for at in range(NUM_SHARDS)]


def make_text(number: int, *, seed: int = 0) -> str:
    """Make a text that depends on nothing but its number and the seed."""
    chance = random.Random(f"{seed}/{number}")
    return "owl " + " ".join(chance.choices(WORDS, k=chance.randint(5, 40)))


NEW = [(f"n{number}", make_text(number, seed=1)) for number in range(10)]
CHANGED = [(f"d{number}", make_text(number, seed=2)) for number in (2, 5, 7)]
GONE = [("d1", None), ("d8", None), ("d9", None)]
_DOOMED = [docid for docid, _text in GONE]


def _in(folder: Path, *arguments: str) -> list[str]:
    return [each.format(c=folder / COLLECTION, out=folder / OUT, w=folder) for each in arguments]


def _operation(
    name: str,
    base: str,
    *arguments: str,
    makes: str = COLLECTION,
    searcher: str = "lexical",
    changed: Sequence[tuple[str, str | None]] = (),
    is_atomic: bool = True,
) -> Operation:
    return Operation(
        name,
        base,
        lambda folder: _in(folder, *arguments),
        makes=makes,
        searcher=searcher,
        changed=changed,
        is_atomic=is_atomic,
    )


OPERATIONS: Mapping[str, Operation] = {
    each.name: each
    for each in (
        _operation(
            *("create", "nothing", "add", "{c}", "{w}/new.jsonl", *_BATCHES),
            changed=NEW,
            is_atomic=False,
        ),
        _operation(
            *("add", "plain", "add", "{c}", "{w}/new.jsonl", *_BATCHES),
            changed=NEW,
            is_atomic=False,
        ),
        _operation(
            *("update", "plain", "add", "{c}", "{w}/changed.jsonl", *_BATCHES, *_NO_COMPACTING),
            changed=CHANGED,
        ),
        _operation(*("remove", "plain", "remove", "{c}", *_DOOMED, *_NO_COMPACTING), changed=GONE),
        _operation("compact", "plain", "remove", "{c}", *_DOOMED, changed=GONE),
        _operation("search", "plain", "search", "{c}", "owl", "--with", "lexical"),
        _operation("verify", "plain", "verify", "{c}"),
        _operation("repair", "damaged", "verify", "{c}", "--repair"),
        _operation("catch up", "behind", "search", "{c}", "owl", "--with", "lexical"),
        _operation("encode", "unencoded", "encode", "{c}", searcher="dense"),
        _operation(
            *("add to vectors", "encoded", "add", "{c}", "{w}/new.jsonl", *_BATCHES),
            searcher="dense",
            changed=NEW,
            is_atomic=False,
        ),
        _operation(
            *("remove vectors", "encoded", "remove", "{c}", *_DOOMED),
            searcher="dense",
            changed=GONE,
        ),
        _operation("repair vectors", "broken", "verify", "{c}", "--repair", searcher="dense"),
        _operation("install", "encoded", "install", "{c}", "{c}/models/writer", searcher="dense"),
        _operation("shard", "plain", "shard", "{c}", "--shards", "2", "--out", "{out}", makes=OUT),
        _operation("merge", "shards", "merge", "{c}", "--out", "{out}", makes=OUT),
        _operation(
            *("add to shards", "shards", "add", "{c}", "{w}/new.jsonl", *_BATCHES),
            changed=NEW,
            is_atomic=False,
        ),
        _operation("remove from shards", "shards", "remove", "{c}", *_DOOMED, changed=GONE),
        _operation(
            *("learn", "learnable", "learn", "{c}", "--dense.encoder", "{w}/models/encoder"),
            *("--learn.generator", "{w}/models/generator", "--learn.method", "none"),
            *("--learn.warm-up-steps", "3", "--learn.warm-up-batch", "4", "--device", "cpu"),
            *("--learn.queries-per-passage", "1", "--learn.judged-queries", "8"),
            *("--learn.held-out", "0.3", "--minutes", "1"),
        ),
        _operation("search shards", "shards", "search", "{c}", "owl", "--with", "lexical"),
    )
}


# Bases -----------------------------------------------------------------------------------------


def prepare(base: str, folder: Path) -> None:
    """Make what an operation starts from, in an empty folder."""
    write_jsonl(folder / "new.jsonl", NEW)
    write_jsonl(folder / "changed.jsonl", CHANGED)
    collection = folder / COLLECTION
    if base == "nothing":
        return
    with Engine.open(collection, settings=[{"lexical": {"compact_share": 1.0}}]) as engine:
        engine.add_documents(_documents((f"d{at}", make_text(at)) for at in range(20)))
        engine.remove(["d3"])
        engine.add_documents(_documents([("d4", make_text(4, seed=3))]))
    _MAKERS.get(base, lambda _collection: None)(collection)


def _documents(texts: Sequence[tuple[str, str]]) -> list[Document]:
    return [Document(docid, {"text": (text,)}) for docid, text in texts]


def _damage(collection: Path) -> None:
    path = next((collection / "lexical").rglob("*.idx"))
    path.write_bytes(path.read_bytes()[:-9])


def _leave_behind(collection: Path) -> None:
    """Write as a process does that is killed before its indexes follow."""
    from functools import partial

    from quoth.text.passages import PassageConfig, cut_document

    with contextlib.closing(Store.create(collection)) as store:
        store.add(
            [Document("late", {"text": ("a late owl",)})],
            cut=partial(cut_document, config=PassageConfig()),
        )


def _split(collection: Path) -> None:
    from quoth.shards.split_and_merge import split_collection

    whole = collection.with_name("whole")
    collection.rename(whole)
    split_collection(whole, collection, count=NUM_SHARDS)
    shutil.rmtree(whole)


def _give_encoder(collection: Path) -> None:
    from tiny_encoder import save_tiny_encoder  # in tests/support

    from quoth.settings.stored import MODELS, use_learned

    encoder = save_tiny_encoder(collection / MODELS / "learned-1")
    with contextlib.closing(Store.create(collection)) as store:
        use_learned(store, encoder=encoder.name)


def _encode(collection: Path) -> None:
    _give_encoder(collection)
    with Engine.open(collection) as engine:
        engine.encode()
    (collection / "models" / "writer").mkdir()
    (collection / "models" / "writer" / "config.json").write_text("{}")


def _break_vectors(collection: Path) -> None:
    _encode(collection)
    path = next((collection / "dense").rglob("*.npy"))
    path.write_bytes(path.read_bytes()[:-9])


def _give_learners(collection: Path) -> None:
    """Make a collection that can be learned from, and models small enough to learn in seconds."""
    from learning_worlds import make_documents, save_models  # in tests/support

    save_models(collection.parent / "models")
    shutil.rmtree(collection)
    with Engine.open(collection) as engine:
        for each in make_documents(30):
            text = f"owl barn {each.fields['text'][0]}"
            engine.add_documents([Document(each.docid, {**each.fields, "text": (text,)})])


_MAKERS: Mapping[str, Callable[[Path], None]] = {
    "damaged": _damage,
    "behind": _leave_behind,
    "shards": _split,
    "unencoded": _give_encoder,
    "encoded": _encode,
    "learnable": _give_learners,
    "learnable shards": lambda collection: (_give_learners(collection), _split(collection))[1],
    "broken": _break_vectors,
}


def write_jsonl(path: Path, texts: Sequence[tuple[str, str]]) -> None:
    """Write documents as a source."""
    lines = (json.dumps({"_id": docid, "text": text}) for docid, text in texts)
    path.write_text("".join(f"{line}\n" for line in lines))


# Running and looking ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended, and what it said; code −1 is a traceback."""

    code: int
    said: str


def run(arguments: Sequence[str], log: Path) -> Ended:
    """Run a command in this process, all that it and its libraries write going to a file."""
    handle = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)
    sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
    sys.argv = ["quoth", *arguments]
    try:
        _install(arguments) if arguments[0] == "install" else run_command()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = -1
    return Ended(code, log.read_text(errors="replace"))


def _install(arguments: Sequence[str]) -> None:
    """Install a model as the end of training does, with the error handling of a command."""
    from quoth.engine.writing import install_model
    from quoth.errors import QuothError

    try:
        install_model(Path(arguments[1]), Path(arguments[2]), wait_seconds=1.0)
    except QuothError as error:
        sys.stderr.write(f"error: {error}\n")
        sys.exit(3)
    except OSError as error:
        sys.stderr.write(f"error: {error.filename or 'output'}: {error.strerror}\n")
        sys.exit(3)


def open_one(folder: Path) -> OpenedEngine:
    """Open a collection, in one piece or in shards."""
    return open_engine(folder)


def read_state(folder: Path) -> State:
    """Read every document from the stores alone, whatever became of indexes."""
    texts: dict[str, str] = {}
    parts = open_shards(folder).shards if is_sharded(folder) else (folder,)
    with contextlib.suppress(NoCollection):
        for part in parts:
            with contextlib.closing(Store.open(part)) as store:
                documents = {docid: store.get(docid) for docid in store.all_docids()}
            texts |= {docid: found.fields["text"][0] for docid, found in documents.items() if found}
    return frozenset(texts.items())


def find_all(folder: Path, searcher: str) -> list[tuple[str, float]]:
    """Search for a word that every document has."""
    with open_one(folder) as engine:
        hits = engine.search("owl barn", k=99, searcher=searcher, rerank=False)
        return sorted((hit.docid, round(hit.score, 4)) for hit in hits)
