"""Training a phrase vocabulary: what it promises of the result, and going on after a stop."""

from __future__ import annotations

import random
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from quoth.errors import ConfigError
from quoth.vocabulary.phrases import training
from quoth.vocabulary.phrases.config import CUTTERS, NUM_BYTES, PhraseConfig
from quoth.vocabulary.phrases.mining import mine_candidates, read_corpus
from quoth.vocabulary.phrases.pruning import choose_pool
from quoth.vocabulary.phrases.report import report_phrases
from quoth.vocabulary.phrases.training import train_phrases
from quoth.vocabulary.phrases.vocabulary import PhraseVocabulary, build_vocabulary
from quoth.vocabulary.phrases.workers import Threads

CONFIG = PhraseConfig(size=420, min_count=2, piece_count=2)


def make_texts(number: int = 400) -> list[str]:
    """Write texts of fixed phrases and rare words."""
    chance = random.Random(7)
    openings = ["What is the", "how do i fix a", "best way to", "list of", "is it safe to eat"]
    middles = ["new york", "blue cheese", "star wars film", "naïve bayes", "broken re-entry heater"]
    ends = ["in 2024?", "at home", "for free", "", "(part 2)"]
    rare = ["".join(chance.choices("abcdeé", k=6)) for _ in range(60)]
    parts = [openings, middles, rare, ends]
    return [" ".join(chance.choice(part) for part in parts) for _ in range(number)]


def texts_of(vocabulary: PhraseVocabulary) -> list[str]:
    return [vocabulary.text_of(each) for each in range(NUM_BYTES, len(vocabulary))]


def quiet(stage: str, done: int, total: int) -> None:
    """Take no notice."""


@pytest.mark.parametrize("cutter", CUTTERS)
def test_what_a_vocabulary_promises(cutter: str) -> None:
    texts = make_texts()
    config = PhraseConfig(size=420, piece_count=2, min_use=3, cutter=cutter)
    vocabulary = train_phrases(texts, config)
    report = report_phrases(vocabulary, texts)
    assert 300 < report.num_phrases == len(vocabulary) <= 420
    assert report.num_texts == len(texts)
    assert report.coverage == 1.0
    assert report.split_words == 0
    assert report.minimum_use >= 3
    assert " for free" in texts_of(vocabulary)
    lengths = np.diff(vocabulary.segment(texts).offsets)
    assert report.mean_length == lengths.mean()
    assert report.p99_length == np.percentile(lengths, 99)


def test_uses_are_those_of_the_finished_vocabulary() -> None:
    texts = make_texts()
    vocabulary = train_phrases(texts, CONFIG)
    uses = np.bincount(vocabulary.segment(texts).ids, minlength=len(vocabulary))
    assert np.array_equal(vocabulary.uses, uses)


def test_more_phrases_make_shorter_sequences() -> None:
    texts = make_texts()
    means = [
        report_phrases(
            train_phrases(texts, PhraseConfig(size=size, piece_count=2)), texts
        ).mean_length
        for size in (270, 320, 420)
    ]
    assert means == sorted(means, reverse=True)
    assert means[0] > 1.5 * means[-1]


def test_counts_are_the_same_as_repeats() -> None:
    texts = make_texts(60)
    counts = [1 + at % 3 for at in range(len(texts))]
    repeated = [text for text, count in zip(texts, counts, strict=True) for _ in range(count)]
    whole = PhraseConfig(size=400, piece_count=2, sample=1.0)
    first = train_phrases(texts, whole, counts=counts)
    second = train_phrases(repeated, whole)
    assert first.fingerprint == second.fingerprint
    assert np.array_equal(first.uses, second.uses)
    with pytest.raises(ConfigError, match="one count"):
        train_phrases(texts, whole, counts=counts[:-1])


def test_threads_do_not_matter() -> None:
    texts = make_texts()
    one, three = (train_phrases(texts, CONFIG, workers=Threads(threads)) for threads in (1, 3))
    assert one.fingerprint == three.fingerprint


def test_the_corpus_is_let_go_before_the_tables_are_built(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[weakref.ref[Any]] = []
    gone: list[bool] = []

    def read_and_watch(*given: Any, **more: Any) -> Any:
        corpus = read_corpus(*given, **more)
        read.append(weakref.ref(corpus.texts.symbols))
        return corpus

    def build(*given: Any, **more: Any) -> PhraseVocabulary:
        gone.extend(each() is None for each in read)
        return build_vocabulary(*given, **more)

    monkeypatch.setattr(training, "read_corpus", read_and_watch)
    monkeypatch.setattr(training, "build_vocabulary", build)
    assert len(train_phrases(make_texts(), CONFIG)) > NUM_BYTES
    assert gone == [True]


def test_no_texts_leave_the_bytes() -> None:
    vocabulary = train_phrases([], CONFIG)
    assert len(vocabulary) == NUM_BYTES
    assert vocabulary.join(vocabulary.segment(["a b"]).ids) == "a b"


def test_candidates_keep_to_the_limits() -> None:
    config = PhraseConfig(min_count=3, max_length=12, max_words=2, piece_length=4, piece_count=3)
    corpus = read_corpus(make_texts(), None, lowercase=True, progress=quiet)
    candidates = mine_candidates(corpus, config, workers=Threads(1), progress=quiet)
    pool = choose_pool(candidates, config)
    assert candidates.phrases.spans.max() == 2
    assert pool.lengths.max() <= 12
    assert candidates.part_counts.min() >= 3
    small = choose_pool(candidates, PhraseConfig(size=256, pool=1))
    assert len(small) == 256 < len(pool)


class Stopped(Exception):
    """Stands for a crash."""


def unreadable() -> Iterator[str]:
    raise AssertionError("the texts are read again")
    yield ""


@pytest.mark.parametrize(("stage", "after"), [("counting parts of words", 2), ("pruning", 4)])
def test_going_on_after_a_stop(tmp_path: Path, stage: str, after: int) -> None:
    texts = make_texts()
    told = 0

    def stop(name: str, done: int, total: int) -> None:
        nonlocal told
        told += name == stage
        if told > after:
            raise Stopped

    with pytest.raises(Stopped):
        train_phrases(texts, CONFIG, folder=tmp_path, progress=stop)
    rounds: list[int] = []
    resumed = train_phrases(
        unreadable(),
        CONFIG,
        folder=tmp_path,
        progress=lambda name, done, total: rounds.append(done) if name == "pruning" else None,
    )
    assert resumed.fingerprint == train_phrases(texts, CONFIG).fingerprint
    if stage == "pruning":
        corpus = read_corpus(texts, None, lowercase=True, progress=quiet)
        candidates = mine_candidates(corpus, CONFIG, workers=Threads(1), progress=quiet)
        assert rounds[0] < len(choose_pool(candidates, CONFIG))


def test_a_stage_is_redone_when_settings_change_or_files_are_damaged(tmp_path: Path) -> None:
    texts = make_texts()
    train_phrases(texts, CONFIG, folder=tmp_path)
    other = PhraseConfig(size=300, piece_count=2)
    smaller = train_phrases(unreadable(), other, folder=tmp_path)
    assert smaller.fingerprint == train_phrases(texts, other).fingerprint
    for path in (tmp_path / "corpus").glob("symbols*.npy"):
        path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(AssertionError, match="read again"):
        train_phrases(unreadable(), other, folder=tmp_path)
    (tmp_path / "corpus" / "artifact.json").write_text("{")
    again = train_phrases(texts, other, folder=tmp_path)
    assert again.fingerprint == smaller.fingerprint
