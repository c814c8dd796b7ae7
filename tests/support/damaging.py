"""A small collection with a past, and ways to damage its files."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import reference

from quoth.engine.engine import Engine
from quoth.records import Document, Hit

SETTINGS = [{"lexical": {"compact_share": 1.0}}]
"""Never compact, so that removed documents stay in the index as .del files."""

QUERIES = ("owl", "barn night", '"barn owl"', "+owl -river", "title:owl three", "changed", "東京")
FILTERS = ("", "year >= 2000", 'lang in ("en", "de")', "not year exists", "", "", "")
WORDS = ("owl", "barn", "night", "river", "the", "flies", "über", "東京", "three", "hunts")


def make_document(number: int, *, seed: int = 0) -> Document:
    """Make a document that depends on nothing but its number and the seed."""
    chance = random.Random(f"{seed}/{number}")
    text = " ".join(chance.choices(WORDS, k=chance.randint(5, 60)))
    fields = {"title": (f"owl {number}",), "text": (text, f"note {number}")}
    return Document(f"d{number}", fields, {"year": 1990 + number % 20, "lang": ("en", "fr")})


class Sample:
    """A collection of about 60 documents, some updated, some removed, and what it must give."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        made = [make_document(number) for number in range(62)]
        changed = [Document(docid, {"text": (f"changed owl {docid}",)}) for docid in ("d5", "d6")]
        with Engine.open(folder, settings=SETTINGS) as engine:
            engine.add_documents(made)
            engine.remove(["d3", "d4"])
            engine.add_documents(changed)
        self.documents = {each.docid: each for each in (*made, *changed)}
        del self.documents["d3"], self.documents["d4"]
        self._hits: dict[tuple[str, str], list[Hit]] = {}

    def copy_to(self, folder: Path) -> Path:
        """Copy the collection, to be damaged."""
        return Path(shutil.copytree(self.folder, folder))

    def hits(self, query: str, where: str) -> list[Hit]:
        """Return all hits of a query, from the brute-force reference."""
        key = query, where
        if key not in self._hits:
            self._hits[key] = reference.search(self.documents, query, k=999, where=where)
        return self._hits[key]

    def assert_reads_back(self, engine: Engine) -> None:
        """Everything is there, nothing else, and every search is exact."""
        assert sorted(engine.docids()) == sorted(self.documents)
        for docid, document in self.documents.items():
            assert engine.document(docid) == document
        for query, where in zip(QUERIES, FILTERS, strict=True):
            hits, every = engine.search(query, k=10, where=where), self.hits(query, where)
            reference.assert_same_hits(hits, every[:10], all_hits=every)
            for hit in hits:
                self._assert_literal(hit)

    def _assert_literal(self, hit: Hit) -> None:
        passage = hit.passage
        assert passage is not None
        text = self.documents[hit.docid].fields[passage.field][passage.instance]
        assert passage.text == text[passage.span.start : passage.span.end]


def data_files(folder: Path) -> list[Path]:
    """List every file that holds something, without locks and SQLite's own scratch files."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and path.stat().st_size
        and not path.name.endswith((".lock", "-shm", "-wal"))
    )


def truncate(path: Path) -> None:
    """Lose the second half of a file."""
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])


def flip_bit(path: Path, chance: random.Random) -> int:
    """Flip one bit somewhere; returns where."""
    content = bytearray(path.read_bytes())
    at = chance.randrange(len(content))
    content[at] ^= 1 << chance.randrange(8)
    path.write_bytes(content)
    return at
