"""What is given to the training of a language model: settings by section, labelled questions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from quoth.errors import ConfigError, CorpusError
from quoth.jobs.quoting.pairs import LabelledQuestion, read_questions
from quoth.jobs.quoting.settings import DynamicSettings, read_settings
from quoth.settings.config import Values
from quoth.settings.describe import describe_section
from quoth.settings.dynamic_lm import TRAINING_SECTIONS
from quoth.settings.parsing import overrides_from_text, read_assignments


def layers(texts: Sequence[str], **training: Any) -> list[Values]:
    """Read settings as the command does, with options of its own on top."""
    given = overrides_from_text(read_assignments(texts, tuple(TRAINING_SECTIONS)))
    return [given, {"training": training}]


def test_settings_reach_their_sections() -> None:
    texts = ("recipe.steps=7", "negatives.generation=yes", "sampling.method=n_ids")
    found = read_settings(*layers([*texts, "model.lora-rank=2"], device="cpu", seed=5))
    assert isinstance(found, DynamicSettings) and found.training.steps == 7
    assert found.recipe.negatives.generation and found.recipe.sampling.method == "n_ids"
    assert found.model.lora_rank == 2 and found.recipe.seed == found.quoting.seed == 5
    assert (found.recipe.batch_size, found.recipe.quote_share) == (1, 0.75)
    assert found.given >= {"negatives.generation", "model.lora_rank", "training.steps"}


def test_defaults_that_are_shown_are_those_that_are_taken() -> None:
    found = read_settings(*layers([], device="cpu"))
    taken = {"recipe": found.recipe, "quoting": found.quoting, "model": found.model}
    taken |= {"sampling": found.recipe.sampling, "negatives": found.recipe.negatives}
    for section, config in taken.items():
        for each in describe_section(section):
            if each.default is not None:
                assert getattr(config, each.name) == each.default, (section, each.name)


def test_all_that_is_wrong_with_settings_is_said_at_once() -> None:
    texts = [
        *("recipe.foo=1", "bar.x=2", "negatives.generation=maybe", "recipe.clip=nan"),
        *("training.judged=-1", "sampling.gap_min=0", "quoting.min_cover=2", "model.tuning=some"),
    ]
    with pytest.raises(ConfigError) as refused:
        layers(texts)
    for said in (
        "there is no setting recipe.foo; recipe has mixed_weight",
        "there is no setting bar.x; the sections are collection",
        "negatives.generation is 'maybe', expected true or false",
        "recipe.clip is 'nan', expected a number",
        "training: judged is -1, expected 0 or more",
        "sampling: gap_min is 0, expected at least 1",
        "quoting: min_cover is 2.0, expected 0 to 1",
        "model: tuning is 'some', expected lora or full",
    ):
        assert said in str(refused.value)
    with pytest.raises(ConfigError, match=r"model: lora_rank is 0.*recipe: accumulate is 0"):
        read_settings({"recipe": {"accumulate": 0}, "model": {"lora_rank": 0}})
    with pytest.raises(ConfigError, match="device is 'tpu', expected auto"):
        read_settings(*layers([], device="tpu"))


def test_labelled_questions_that_cannot_be_used_are_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    lines = [
        '{"question": "Who?", "answers": ["owl"], "docid": "a"}',
        '{"question": "Who?", "answers": ["owl"], "docid": "z"}',
        '{"question": "Who?", "answers": [], "docid": "a"}',
        '{"question": "Who?", "answers": ["owl"], "docid": "a", "passage": "An owl."}',
        '{"question": " ", "answers": ["owl"], "passage": "An owl."}',
        "[1]",
        "never read",
    ]
    path.write_text("\n".join(lines))
    with pytest.raises(CorpusError) as refused:
        read_questions(path, {"a"})
    told = str(refused.value).splitlines()
    assert told[0].startswith(f"{path}:2: there is no document 'z' in this collection")
    assert [line.partition(" ")[0] for line in told[1:5]] == [
        f"{path}:{at}:" for at in (3, 4, 5, 6)
    ]
    assert told[5:] == ["(reading stopped here)"]
    path.write_text("\n" + lines[0] + '\n{"question": "Who?", "answers": ["owl"], "passage": "O"}')
    assert read_questions(path, {"a"}) == [
        LabelledQuestion("Who?", ("owl",), "", "a"),
        LabelledQuestion("Who?", ("owl",), "O", ""),
    ]
    path.write_text("\n")
    with pytest.raises(CorpusError, match="holds no questions"):
        read_questions(path, {"a"})
    path.write_bytes(b'{"question": "\xff"}')
    with pytest.raises(CorpusError, match=r"pairs\.jsonl:1: not utf-8 text"):
        read_questions(path, {"a"})
    with pytest.raises(CorpusError, match="is no file"):
        read_questions(tmp_path / "none", {"a"})
