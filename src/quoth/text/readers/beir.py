"""The layout of BEIR datasets: a folder with corpus.jsonl, queries.jsonl and qrels/."""

from __future__ import annotations

from collections.abc import Sequence

_CORPUS_NAMES = ("corpus.jsonl", "corpus.jsonl.gz")


def pick_corpus(names: Sequence[str]) -> list[str]:
    """Keep only the corpus where a folder holds one: queries and qrels are not documents.

    >>> pick_corpus(["corpus.jsonl", "qrels", "queries.jsonl"])
    ['corpus.jsonl']
    >>> pick_corpus(["a.md", "queries.jsonl"])
    ['a.md', 'queries.jsonl']
    """
    found = [name for name in _CORPUS_NAMES if name in names]
    return found[:1] or list(names)
