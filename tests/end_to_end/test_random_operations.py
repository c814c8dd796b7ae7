"""Random operations against a brute-force reference: whatever happened before, search is exact."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import reference
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from quoth.engine.engine import Engine
from quoth.records import Document, Part

WORDS = ["owl", "owls", "barn", "night", "the", "the", "the", "flies", "über", "東京", "42"]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
docids = st.sampled_from([f"d{number}" for number in range(8)])
documents = st.builds(
    Document,
    docids,
    st.dictionaries(
        st.sampled_from(["title", "text", "tags"]),
        st.lists(texts, min_size=1, max_size=2).map(tuple),
        min_size=1,
    ),
    st.dictionaries(st.sampled_from(["year", "lang"]), st.sampled_from([1999, 2020, "en", "de"])),
)
queries = st.one_of(
    texts,
    st.sampled_from(
        ['"the owl"', "+owl -barn", "title:owl night", '-"barn owl" the', "+tags:flies owl", "-the"]
    ),
)
filters = st.sampled_from(["", "year >= 2000", 'lang in ("en", "de")', "not year exists"])


def _leaves(part: Part) -> Iterator[float]:
    if not part.parts:
        yield part.value
    for child in part.parts:
        yield from _leaves(child)


class CollectionMachine(RuleBasedStateMachine):
    """Adds, updates, removes, reopens, and compares with a dict."""

    def __init__(self) -> None:
        super().__init__()
        self._scratch = tempfile.TemporaryDirectory()
        self.folder = Path(self._scratch.name) / "c.quoth"
        # Never compact, so that dead documents stay in the index and must be corrected for; show
        # every near-identical document, as the reference does.
        self.settings = [{"lexical": {"compact_share": 1.0}, "duplicates": {"together": False}}]
        self.engine = Engine.open(self.folder, settings=self.settings)
        self.expected: dict[str, Document] = {}
        self.engine.add_documents([])

    @rule(batch=st.lists(documents, max_size=4, unique_by=lambda each: each.docid))
    def add(self, batch: list[Document]) -> None:
        written = self.engine.add_documents(batch)
        assert written.added == sum(each.docid not in self.expected for each in batch)
        assert written.unchanged == sum(self.expected.get(each.docid) == each for each in batch)
        self.expected |= {each.docid: each for each in batch}

    @rule(lengths=st.lists(st.integers(41, 150), min_size=8, max_size=8))
    def add_until_tantivy_merges(self, lengths: list[int]) -> None:
        """Write as many segments as tantivy merges, of documents too long to keep lengths exact."""
        for at, length in enumerate(lengths):
            self.add([Document(f"long {at}", {"text": ("the barn owl " * length,)})])
            if at == 3:
                self.remove(["long 1", "long 2"])

    @rule(doomed=st.lists(docids, max_size=3, unique=True))
    def remove(self, doomed: list[str]) -> None:
        missing = self.engine.remove(doomed)
        assert sorted(missing) == sorted(each for each in doomed if each not in self.expected)
        for docid in doomed:
            self.expected.pop(docid, None)

    @rule()
    def reopen(self) -> None:
        self.engine.close()
        self.engine = Engine.open(self.folder, settings=self.settings)

    @rule(query=queries, where=filters, k=st.integers(1, 9))
    def search(self, query: str, where: str, k: int) -> None:
        found = self.engine.search(query, k=k, where=where)
        every = reference.search(self.expected, query, k=99, where=where)
        note(f"{query!r} where {where!r}: {found} against {every}")
        reference.assert_same_hits(found, every[:k], all_hits=every)
        for part, hit in zip(
            self.engine.explain(query, [hit.docid for hit in found]), found, strict=True
        ):
            assert part.value == pytest.approx(sum(_leaves(part)), abs=1e-9)
            assert hit.score == pytest.approx(part.value, rel=2e-6, abs=1e-6)

    @precondition(lambda self: self.expected)
    @rule()
    def documents_read_back(self) -> None:
        for docid, document in self.expected.items():
            assert self.engine.document(docid) == document

    @rule()
    def verify(self) -> None:
        assert self.engine.verify().is_clean

    @invariant()
    def counts_agree(self) -> None:
        status = self.engine.status()
        assert status["documents"] == len(self.expected)
        assert status["indexes"]["lexical"]["documents"] == len(self.expected)

    def teardown(self) -> None:
        self.engine.close()
        self._scratch.cleanup()


CollectionMachine.TestCase.settings = settings(
    max_examples=12,
    stateful_step_count=20,
    deadline=None,
    print_blob=True,  # a failing run prints what reproduces it
    suppress_health_check=list(HealthCheck),
)
TestRandomOperations = CollectionMachine.TestCase
