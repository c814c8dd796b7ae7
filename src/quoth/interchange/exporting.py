"""Write all documents of a collection into files for other programs.

Documents are streamed from one consistent state, and an output appears under its name when it is
complete: an interrupted export leaves nothing behind. Vectors, models and generated identifiers are
not exported; they are made from the documents again.
"""

from __future__ import annotations

import contextlib
import gzip
import heapq
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from quoth.artifact import sync_folder
from quoth.collection.shards import is_sharded, open_shards
from quoth.collection.store import Store
from quoth.errors import CollectionError
from quoth.interchange.shapes import to_beir, to_record
from quoth.records import Document, Qrels, Query

Told = Callable[[str, int, int], None]
"""What is told how far it has come: of what, how much is done, and of how much."""

JSONL, BEIR, PARQUET = FORMATS = ("jsonl", "beir", "parquet")
_TELL_EVERY = 500  # documents


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written."""

    path: Path
    format: str
    documents: int


def num_documents(folder: Path) -> int:
    """Count the documents of a collection, in one piece or in shards."""
    with contextlib.ExitStack() as stack:
        return sum(store.num_documents for store in _stores(folder, stack))


def stream_documents(folder: Path) -> Iterator[Document]:
    """Yield all documents of a collection in the order they were added, without holding them."""
    with contextlib.ExitStack() as stack:
        stores = _stores(folder, stack)
        for store in stores:
            stack.enter_context(store.snapshot())
        streams = [store.live_documents() for store in stores]
        merged = heapq.merge(*streams, key=lambda each: (each.row, each.document.docid))
        yield from (stored.document for stored in merged)


def write_jsonl(documents: Iterable[Document], stream: IO[bytes]) -> int:
    """Write one object per line; returns how many."""
    return _write_lines(map(to_record, documents), stream)


def export_file(folder: Path, out: Path, *, format: str, told: Told) -> Exported:
    """Write one file: JSON Lines, gzipped if the name ends in .gz, or Parquet."""
    documents = _telling(folder, told)
    with written_whole(out) as unfinished:
        if format == PARQUET:
            from quoth.interchange.parquet import write_parquet

            count = write_parquet(documents, unfinished)
        else:
            with _open(unfinished, zipped=out.name.endswith(".gz")) as stream:
                count = write_jsonl(documents, stream)
    return Exported(out, format, count)


def export_beir(
    folder: Path,
    out: Path,
    *,
    queries: Iterable[Query] | None = None,
    qrels: Qrels | None = None,
    told: Told,
) -> Exported:
    """Write a folder as BEIR has it: corpus.jsonl and, where given, queries.jsonl and qrels/."""
    with written_whole(out) as unfinished:
        unfinished.mkdir()
        with open(unfinished / "corpus.jsonl", "wb") as stream:
            count = _write_lines(map(to_beir, _telling(folder, told)), stream)
        if queries is not None:
            records = ({"_id": each.qid, "text": each.text, "metadata": {}} for each in queries)
            with open(unfinished / "queries.jsonl", "wb") as stream:
                _write_lines(records, stream)
        if qrels is not None:
            (unfinished / "qrels").mkdir()
            text = "".join(f"{line}\n" for line in _qrels_lines(qrels))
            (unfinished / "qrels" / "test.tsv").write_text(text, encoding="utf-8")
    return Exported(out, BEIR, count)


@contextlib.contextmanager
def written_whole(out: Path) -> Iterator[Path]:
    """Yield a path to write to; it becomes `out` when the block ends, and goes if it fails."""
    if os.path.lexists(out):
        raise CollectionError(f"{out} exists already; name another output, or remove it")
    unfinished = out.with_name(f".{out.name}-{secrets.token_hex(4)}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        yield unfinished
        os.rename(unfinished, out)
        sync_folder(out.parent)
    except OSError as error:
        raise CollectionError(f"{out} cannot be written ({error.strerror or error})") from error
    finally:
        if unfinished.is_dir():
            shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.unlink(missing_ok=True)


def _stores(folder: Path, stack: contextlib.ExitStack) -> list[Store]:
    folders = open_shards(folder).shards if is_sharded(folder) else (folder,)
    return [stack.enter_context(contextlib.closing(Store.open(each))) for each in folders]


def _telling(folder: Path, told: Told) -> Iterator[Document]:
    total = num_documents(folder)
    for done, document in enumerate(stream_documents(folder)):
        if done % _TELL_EVERY == 0:
            told("exporting documents", done, total)
        yield document
    told("exporting documents", total, total)


def _write_lines(records: Iterable[dict[str, Any]], stream: IO[bytes]) -> int:
    count = 0
    for record in records:
        stream.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
        count += 1
    stream.flush()
    return count


@contextlib.contextmanager
def _open(path: Path, *, zipped: bool) -> Iterator[IO[bytes]]:
    """Open a file that is on disk when it is closed; the same documents give the same bytes."""
    with open(path, "wb") as file:
        if zipped:
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as zipper:
                yield zipper  # type: ignore[misc]
        else:
            yield file
        file.flush()
        os.fsync(file.fileno())


def _qrels_lines(qrels: Qrels) -> Iterator[str]:
    yield "query-id\tcorpus-id\tscore"
    for qid, grades in qrels.grades.items():
        for docid, grade in grades.items():
            if any(each in key for key in (qid, docid) for each in "\t\r\n"):
                raise CollectionError(
                    f"the judgement of {docid!r} for {qid!r} has a tab or a line break in its key,"
                    " which BEIR cannot write"
                )
            yield f"{qid}\t{docid}\t{grade}"
