"""The reader: the same numbers as its training network, windows, spans, and files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_reader import CONFIG, TinyReader, make_reader
from transformers.utils import logging

from quoth.errors import ConfigError, Damaged
from quoth.models.reader.config import ReaderConfig
from quoth.models.reader.files import CONFIG_FILE, WEIGHTS_FILE, read_saved
from quoth.models.reader.inputs import TitledText
from quoth.models.reader.network import SequenceBatch
from quoth.models.reader.reader import Reader
from quoth.models.reader.spans import (
    Reading,
    best_span,
    log_sum_exp,
    sentence_scores,
    span_scores,
)
from quoth.records import Span

pytestmark = pytest.mark.usefixtures("one_thread")

logging.disable_progress_bar()  # type: ignore[no-untyped-call]
QUESTION = "who hunts at night?"
PASSAGES = [
    TitledText("", "The barn owl hunts at night. Ravens sleep."),
    TitledText("Swift", "Birds sleep on the wing at dusk, among many other birds of the field."),
    TitledText("", ""),
    TitledText("", "one two three " * 40),  # longer than is read at once
]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyReader:
    return make_reader(tmp_path_factory.mktemp("reader"))


@pytest.fixture(scope="module")
def reader(tiny: TinyReader) -> Reader:
    return Reader.load(str(tiny.folder), quick=False)


def test_a_sequence_holds_question_title_and_text_in_this_order(tiny: TinyReader) -> None:
    question, title, text = (np.array(each) for each in ([7, 8], [9], [10, 11, 12]))
    tokenizer = tiny.inputs._tokenizer
    first, last = tokenizer.token_to_id("[CLS]"), tokenizer.token_to_id("[SEP]")
    joined = tiny.inputs.join(question, title, text)
    assert joined.subword_ids.tolist() == [first, 7, 8, last, 9, last, 10, 11, 12, last]
    assert (joined.second, joined.text) == (4, 6)
    plain = tiny.inputs.join(question, title[:0], text)
    assert plain.subword_ids.tolist() == [first, 7, 8, last, 10, 11, 12, last]
    assert (plain.second, plain.text) == (4, 4)
    longest = tiny.inputs.join(np.full(99, 7), np.full(99, 9), np.full(99, 10))
    assert len(longest.subword_ids) == CONFIG.max_subwords


def test_windows_cover_a_text_and_share_stretches(tiny: TinyReader) -> None:
    windows = tiny.inputs.windows(QUESTION, PASSAGES)
    assert [window.passage for window in windows] == [0, 1, 3, 3, 3]
    ids, spans = tiny.inputs.tokenise([PASSAGES[3].text])[0]
    covered = set()
    for window in windows[2:]:
        part = slice(window.start, window.start + len(window.spans))
        assert window.sequence.subword_ids[window.sequence.text : -1].tolist() == ids[part].tolist()
        assert (window.spans == spans[part]).all()
        assert len(window.sequence.subword_ids) <= CONFIG.max_subwords
        covered |= {*range(part.start, part.stop)}
    assert covered == {*range(len(ids))}


def test_a_reading_is_what_the_training_network_says(tiny: TinyReader, reader: Reader) -> None:
    readings = reader.read(QUESTION, PASSAGES)
    for window in tiny.inputs.windows(QUESTION, PASSAGES[:2]):
        ids = torch.from_numpy(window.sequence.subword_ids)[None]
        fields = (torch.arange(ids.shape[1]) >= window.sequence.second).long()[None]
        with torch.inference_mode():
            scores = tiny.network(SequenceBatch(ids, fields, torch.ones_like(ids).bool()))
        own, first = readings[window.passage], window.sequence.text
        assert (own.spans == window.spans).all()
        for found, expected in (
            (own.starts, scores.starts[0, first:-1]),
            (own.ends, scores.ends[0, first:-1]),
            (own.evidence, scores.evidence[0, first:-1]),
        ):
            np.testing.assert_allclose(found, expected.numpy(), atol=1e-4)
        assert own.silence == pytest.approx(
            float(scores.starts[0, 0] + scores.ends[0, 0]), abs=1e-4
        )
        assert own.relevance == pytest.approx(float(scores.relevance[0]), abs=1e-4)


def test_empty_and_long_texts_are_read(reader: Reader) -> None:
    readings = reader.read(QUESTION, PASSAGES)
    assert len(readings[2].spans) == 0 and readings[2].relevance == -np.inf
    assert best_span(readings[2]) is None
    long = readings[3]
    assert len(long.spans) == 120 and np.isfinite(long.starts).all()
    assert (np.diff(long.spans[:, 0]) > 0).all(), "every subword once, in order"


def test_questions_read_together_are_read_as_alone(reader: Reader) -> None:
    questions = [QUESTION, "birds"]
    together = reader.read_all(questions, [PASSAGES, PASSAGES[:1]])
    for question, own, found in zip(questions, (PASSAGES, PASSAGES[:1]), together, strict=True):
        for one, other in zip(reader.read(question, own), found, strict=True):
            np.testing.assert_allclose(one.starts, other.starts, atol=1e-4)
    scores = reader.score(questions, PASSAGES[:2])
    assert scores[0] == pytest.approx(together[0][0].relevance, abs=1e-4)


def test_a_passage_is_scored_by_what_fits_and_one_reader_is_loaded_once(tiny: TinyReader) -> None:
    loaded = Reader.load(str(tiny.folder))
    assert Reader.load(str(tiny.folder)) is loaded
    assert Reader.load(str(tiny.folder), quick=False) is not loaded
    long = TitledText("", "one two three " * 40)
    cut = TitledText("", " ".join(long.text.split()[: 20 - 3 - 1]))
    scores = loaded.score(["birds", "birds"], [long, cut], most=20)
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    assert loaded.score([], []) == []


# --- spans and sentences -------------------------------------------------------------------------


def random_reading(seed: int, length: int = 12) -> Reading:
    chance = np.random.default_rng(seed)
    begins = np.arange(length) * 3
    return Reading(
        np.stack([begins, begins + 2], axis=1), *chance.normal(size=(3, length)), 0.0, 0.0
    )


@pytest.mark.parametrize("most", [1, 4, 30])
def test_the_best_span_is_the_best_of_all(most: int) -> None:
    for seed in range(20):
        reading = random_reading(seed)
        every = {
            (first, last): reading.starts[first] + reading.ends[last]
            for first in range(12)
            for last in range(first, min(12, first + most))
        }
        first, last = max(every, key=every.__getitem__)
        found = best_span(reading, max_subwords=most)
        assert found is not None
        assert found.span == Span(3 * first, 3 * last + 2)
        assert found.score == pytest.approx(every[first, last])


def test_sentences_share_all_probability() -> None:
    reading = random_reading(0)
    sentences = [Span(0, 10), Span(10, 20), Span(20, 99), Span(99, 120)]
    found = sentence_scores(reading, sentences)
    total = log_sum_exp(span_scores(reading).ravel(), axis=0)
    assert log_sum_exp(found[:3, 0], axis=0) == pytest.approx(float(total))
    assert found[0, 1] == pytest.approx(reading.evidence[:4].mean())
    assert (found[3] == -np.inf).all(), "no subword begins there"


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "tolerance"), [("fp32", 1e-4), ("bf16", 1.5), ("int8", 1.5)])
def test_a_reader_is_saved_and_loaded(
    tiny: TinyReader, reader: Reader, tmp_path: Path, dtype: str, tolerance: float
) -> None:
    again = Reader.load(str(tiny.save(tmp_path / "again", dtype=dtype)), quick=False)
    assert again.config == CONFIG
    expected, found = (each.read(QUESTION, PASSAGES[:1])[0] for each in (reader, again))
    np.testing.assert_allclose(found.starts, expected.starts, atol=tolerance)


def test_the_quick_network_says_nearly_the_same(tiny: TinyReader, reader: Reader) -> None:
    quick = Reader.load(str(tiny.folder))
    for one, other in zip(
        reader.read(QUESTION, PASSAGES), quick.read(QUESTION, PASSAGES), strict=True
    ):
        np.testing.assert_allclose(other.starts, one.starts, atol=0.6)


def test_what_is_no_reader_is_refused(tiny: TinyReader, tmp_path: Path) -> None:
    folder = tiny.save(tmp_path / "damaged")
    content = bytearray((folder / WEIGHTS_FILE).read_bytes())
    content[-1] ^= 1
    (folder / WEIGHTS_FILE).write_bytes(bytes(content))
    with pytest.raises(Damaged, match="was altered or cut"):
        Reader.load(str(folder))
    (folder / WEIGHTS_FILE).unlink()
    with pytest.raises(Damaged, match="is missing"):
        Reader.load(str(folder))
    (folder / CONFIG_FILE).write_text('{"kind": "owl"}')
    with pytest.raises(ConfigError, match="holds a owl"):
        read_saved(folder)
    with pytest.raises(ConfigError, match="something else than a reader"):
        tiny.save(folder)
    with pytest.raises(ConfigError, match="expected more than"):
        ReaderConfig(max_subwords=100)
