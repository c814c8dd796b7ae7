"""Train a phrase vocabulary: read, count, prune; each finished stage can be kept in a folder.

A run that was stopped goes on from the last finished stage, and from the last round of pruning. A
stage is used again only if the settings it depends on are the same, so several sizes of vocabulary
can share a folder and read and count once. A folder belongs to one set of texts: finished reading
is not repeated, so other texts are not noticed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from quoth.vocabulary.phrases.config import NUM_BYTES, PhraseConfig
from quoth.vocabulary.phrases.counting import Grams, Progress, Sequences
from quoth.vocabulary.phrases.mining import (
    Candidates,
    Corpus,
    mine_candidates,
    read_corpus,
    spell_phrases,
)
from quoth.vocabulary.phrases.pruning import Pool, PoolCutter, choose_pool, prune
from quoth.vocabulary.phrases.stages import Stage
from quoth.vocabulary.phrases.text import Longs, Strings, take_strings
from quoth.vocabulary.phrases.vocabulary import PhraseVocabulary, build_vocabulary
from quoth.vocabulary.phrases.workers import Threads, Workers

_THREADS = Threads(2)
_READING = ("lowercase",)
_COUNTING = (*_READING, "min_count", "max_length", "max_words", "piece_length", "piece_count")


def train_phrases(
    texts: Iterable[str],
    config: PhraseConfig,
    *,
    counts: Iterable[int] | None = None,
    folder: Path | None = None,
    progress: Progress | None = None,
    workers: Workers = _THREADS,
) -> PhraseVocabulary:
    """Choose the phrases that cover texts best; `counts` says how often each text occurs.

    The result depends on the texts and the configuration alone, not on workers or stops.
    """
    phrases, uses = _choose_phrases(
        texts,
        config,
        counts=counts,
        folder=folder,
        progress=progress or _tell_nobody,
        workers=workers,
    )
    return build_vocabulary(phrases, config=config, uses=uses)


def _choose_phrases(
    texts: Iterable[str],
    config: PhraseConfig,
    *,
    counts: Iterable[int] | None,
    folder: Path | None,
    progress: Progress,
    workers: Workers,
) -> tuple[Strings, Longs]:
    """Give the phrases chosen, and the uses of the bytes, then of each of them.

    Apart from building the tables, so that the corpus and the candidates, by far the larger part of
    the memory, are let go before these are made.
    """
    corpus = _read(texts, counts, config, folder=folder, progress=progress)
    candidates = _count(corpus, config, folder=folder, progress=progress, workers=workers)
    pool = choose_pool(candidates, config)
    cutter = PoolCutter(corpus, candidates, pool, config=config, workers=workers)
    stage = Stage(folder, "pruning", asdict(config))
    saved = stage.load()
    alive = saved["alive"] if saved else np.ones(len(pool), dtype=np.bool_)
    left, uses = prune(
        pool,
        cutter,
        config,
        alive=alive,
        keep=lambda kept: stage.save({"alive": kept}),
        progress=progress,
    )
    phrases = _spell_pool(corpus, candidates, pool, np.flatnonzero(left))
    return phrases, np.concatenate([uses[:NUM_BYTES], uses[NUM_BYTES:][left]])


def _tell_nobody(stage: str, done: int, total: int) -> None:
    """Let progress go unseen."""


def _read(
    texts: Iterable[str],
    counts: Iterable[int] | None,
    config: PhraseConfig,
    *,
    folder: Path | None,
    progress: Progress,
) -> Corpus:
    stage = Stage(folder, "corpus", _settings(config, _READING))
    if saved := stage.load():
        return Corpus(
            Strings(saved["content"], saved["offsets"]),
            Sequences(saved["symbols"], saved["text_offsets"], saved["weights"]),
        )
    corpus = read_corpus(texts, counts, lowercase=config.lowercase, progress=progress)
    stage.save(
        {
            "content": corpus.words.content,
            "offsets": corpus.words.offsets,
            "symbols": corpus.texts.symbols,
            "text_offsets": corpus.texts.offsets,
            "weights": corpus.texts.weights,
        }
    )
    return corpus


def _count(
    corpus: Corpus,
    config: PhraseConfig,
    *,
    folder: Path | None,
    progress: Progress,
    workers: Workers,
) -> Candidates:
    stage = Stage(folder, "candidates", _settings(config, _COUNTING))
    names = [each.name for each in fields(Grams)]
    if saved := stage.load():
        grams = Grams(**{name: saved[name] for name in names})
        parts = Strings(saved["part_content"], saved["part_offsets"])
        return Candidates(parts, saved["part_counts"], grams)
    found = mine_candidates(corpus, config, workers=workers, progress=progress)
    stage.save(
        {
            "part_content": found.parts.content,
            "part_offsets": found.parts.offsets,
            "part_counts": found.part_counts,
            **{name: getattr(found.phrases, name) for name in names},
        }
    )
    return found


def _settings(config: PhraseConfig, names: Sequence[str]) -> dict[str, Any]:
    return {name: getattr(config, name) for name in names}


def _spell_pool(corpus: Corpus, candidates: Candidates, pool: Pool, left: Longs) -> Strings:
    """Write the texts of what is left of a pool, in its order."""
    parts, phrases = left[pool.parts[left]], left[~pool.parts[left]]
    spelt = take_strings(candidates.parts, pool.sources[parts])
    joined = spell_phrases(candidates.phrases, pool.sources[phrases], corpus.words)
    both = Strings(
        np.concatenate([spelt.content, joined.content]),
        np.concatenate([spelt.offsets, joined.offsets[1:] + spelt.offsets[-1]]),
    )
    return take_strings(both, np.argsort(np.concatenate([parts, phrases])))
