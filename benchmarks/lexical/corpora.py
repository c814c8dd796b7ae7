"""What the speed benchmark runs on: Zipfian passages made from a seed, and the real collections."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.lexical.quality import join, read, splits
from quoth.evaluation.files import read_queries

VOCABULARY = 300_000
EXPONENT = 1.07
MEAN_LENGTH = 60
_BLOCK = 10_000
_LETTERS = "etaoinshrdlucmfwypvbgkjqxz"


@dataclass(frozen=True)
class Corpus:
    """Passages that can be read again and again, and queries for them."""

    name: str
    num_passages: int
    queries: tuple[str, ...]
    folder: Path | None = None

    def passages(self) -> Iterator[tuple[str, str]]:
        """Yield docid and text, the same every time."""
        if self.folder is None:
            yield from synthetic_passages(self.num_passages)
        else:
            yield from ((d.docid, d.fields["text"][0]) for d in map(join, read(self.folder)))


def synthetic(num_passages: int, *, num_queries: int = 500) -> Corpus:
    """Make a corpus whose words follow Zipf's law; queries are 2 to 6 words of one passage."""
    chance = np.random.default_rng(1)
    sample = [text.split() for _, text in synthetic_passages(min(num_passages, 5_000))]
    queries = []
    for _ in range(num_queries):
        words = sample[chance.integers(len(sample))]
        size = int(chance.integers(2, 7))
        queries.append(" ".join(chance.choice(words, size=min(size, len(words)), replace=False)))
    return Corpus(f"zipf-{num_passages}", num_passages, tuple(queries))


def real(folder: Path) -> Corpus:
    """Take a real collection, title and text joined, with its judged queries (at most 500)."""
    judged = {qid for _, qrels in splits(folder) for qid in qrels.grades}
    queries = [
        each.text for each in read_queries(folder / "queries.jsonl.gz") if each.qid in judged
    ]
    return Corpus(folder.name, sum(1 for _ in read(folder)), tuple(queries[:500]), folder)


def synthetic_passages(count: int) -> Iterator[tuple[str, str]]:
    """Yield passages of log-normal length over a Zipfian vocabulary, block by block."""
    words = np.array([_spell(rank) for rank in range(VOCABULARY)], dtype=object)
    weights = 1.0 / np.arange(1, VOCABULARY + 1) ** EXPONENT
    cumulative = np.cumsum(weights / weights.sum())
    for block in range(0, count, _BLOCK):
        chance = np.random.default_rng([7, block])
        size = min(_BLOCK, count - block)
        lengths = np.clip(chance.lognormal(np.log(MEAN_LENGTH), 0.5, size).astype(int), 5, 400)
        ranks = np.searchsorted(cumulative, chance.random(int(lengths.sum())))
        chosen = words[np.minimum(ranks, VOCABULARY - 1)]
        ends = np.cumsum(lengths)
        for at, (start, end) in enumerate(zip(ends - lengths, ends, strict=True)):
            yield f"p{block + at}", " ".join(chosen[start:end])


def _spell(rank: int) -> str:
    """Spell a rank as a word: frequent ones short, all distinct, none that a stemmer would cut."""
    letters = ""
    rest = rank + 1
    while rest:
        rest, digit = divmod(rest - 1, len(_LETTERS))
        letters += _LETTERS[digit]
    return f"{letters}ox"
