"""Counting in memory gives what the statistics on disk give."""

from __future__ import annotations

import random
from pathlib import Path

from quoth.vocabulary.counting import count_terms
from quoth.vocabulary.statistics import Statistics
from quoth.vocabulary.term_counts import EVERYTHING


def test_counts_equal_those_on_disk(tmp_path: Path) -> None:
    chance, words = random.Random(0), ["owl", "hen", "barn", "night"]
    documents = [
        {
            name: [chance.choices(words, k=chance.randint(0, 4)) for _ in range(2)]
            for name in chance.sample(["title", "text", "url"], 2)
        }
        for _ in range(20)
    ]
    on_disk = Statistics.open(tmp_path / "statistics.db", write=True)
    on_disk.begin()
    for document in documents:
        on_disk.count(document)
    on_disk.commit(change=1, basis={})
    counted = count_terms(documents)
    assert counted.num_documents == on_disk.num_documents == 20
    assert counted.average_lengths() == on_disk.average_lengths()
    for view in ("title", "text", EVERYTHING, "none"):
        asked = [*words, "mouse"]
        assert counted.document_frequencies(view, asked) == on_disk.document_frequencies(
            view, asked
        )
    on_disk.close()
