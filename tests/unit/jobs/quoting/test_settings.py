"""What is given to the training of a language model: settings by section, labelled questions."""

from __future__ import annotations

from pathlib import Path

import pytest

from quoth.errors import ConfigError, CorpusError
from quoth.jobs.quoting.pairs import LabelledQuestion, read_questions
from quoth.jobs.quoting.settings import DynamicSettings, read_settings


def test_settings_reach_their_sections() -> None:
    found = read_settings(
        [
            "recipe.steps=7",
            "negatives.generation=yes",
            "sampling.method=n_ids",
            "model.lora-rank=2",
        ],
        {"device": "cpu", "seed": 5},
    )
    assert isinstance(found, DynamicSettings) and found.training.steps == 7
    assert found.recipe.negatives.generation and found.recipe.sampling.method == "n_ids"
    assert found.model.lora_rank == 2 and found.recipe.seed == found.quoting.seed == 5
    assert (found.recipe.batch_size, found.recipe.quote_share) == (1, 0.75)
    assert found.given >= {"negatives.generation", "model.lora_rank", "training.steps"}


def test_all_that_is_wrong_with_settings_is_said_at_once() -> None:
    texts = [
        *("recipe.foo=1", "bar.x=2", "negatives.generation=maybe", "recipe.clip=nan"),
        *("training.judged=-1", "sampling.gap_min=0", "quoting.min_cover=2", "model.tuning=some"),
    ]
    with pytest.raises(ConfigError) as refused:
        read_settings(texts, {"device": "cpu"})
    for said in (
        "recipe.foo=1 names no setting; recipe has mixed_weight",
        "bar.x=2 names no section",
        "negatives.generation=maybe: expected true or false",
        "recipe.clip=nan: expected a number",
        "judged is -1, expected at least 0",
        "gap_min and gap_max must be",
        "quoting: shares",
        "tuning is 'some'",
    ):
        assert said in str(refused.value)
    with pytest.raises(ConfigError, match="steps, accumulate and report_every must be"):
        read_settings(["recipe.accumulate=0"], {"device": "cpu"})
    with pytest.raises(ConfigError, match="device is 'tpu', expected auto"):
        read_settings([], {"device": "tpu"})


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
