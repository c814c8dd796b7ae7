"""Settings: layers, typed text, TOML, every problem at once, and help for every field."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoth.engine.engine import Engine
from quoth.errors import ConfigError
from quoth.records import Document
from quoth.settings.config import (
    STORED_SECTIONS,
    Config,
    as_values,
    build_config,
    sections,
    setting_names,
    stored_values,
)
from quoth.settings.parsing import overrides_from_text, read_assignments, read_toml

FIELDS = [(section, key) for section, kind in sections().items() for key in setting_names(kind)]


def _toml(folder: Path, text: str) -> Path:
    path = folder / "quoth.toml"
    path.write_text(text, encoding="utf-8")
    return path


# Layers ----------------------------------------------------------------------------------------


def test_no_layers_give_the_defaults() -> None:
    assert build_config() == Config()


def test_a_later_layer_wins_field_by_field() -> None:
    config = build_config(
        {"passages": {"max_words": 90, "overlap_words": 5}, "analyser": {"language": "german"}},
        {"passages": {"max_words": 60}},
    )
    assert (config.passages.max_words, config.passages.overlap_words) == (60, 5)
    assert config.analyser.language == "german"
    assert config.lexical == Config().lexical


def test_defaults_then_saved_then_toml_then_overrides(tmp_path: Path) -> None:
    folder = tmp_path / "c.quoth"
    saved = {"passages": {"max_words": 50, "overlap_words": 4}}
    with Engine.open(folder, settings=[saved]) as engine:
        engine.add_documents([Document("d", {"text": ("owl",)})])
    toml = read_toml(
        _toml(
            tmp_path,
            "[passages]\nmax_words = 70\n[lexical]\ndefault_boost = 0.1\ncompact_share=0.9",
        )
    )
    overrides = overrides_from_text({"lexical.compact_share": "0.3"})
    with Engine.open(folder, settings=[toml, overrides]) as engine:
        config = engine.config
    assert config.passages.overlap_words == 4  # saved, over the default 0
    assert config.passages.max_words == 70  # TOML, over the saved 50
    assert config.lexical.compact_share == 0.3  # override, over TOML's 0.9
    assert config.lexical.default_boost == 0.1  # TOML, over the default
    assert config.lexical.boosts == Config().lexical.boosts


def test_saved_settings_round_trip(tmp_path: Path) -> None:
    given = {
        "passages": {"max_words": 33, "overlap_words": 3, "fields": ["title", "text"]},
        "analyser": {"language": "french", "fold_accents": False, "compounds": ["hibou", "nuit"]},
    }
    config = build_config(given)
    values = stored_values(config)
    assert values == given == as_values(config, STORED_SECTIONS)
    assert build_config(json.loads(json.dumps(values))) == config
    with Engine.open(tmp_path / "c.quoth", settings=[given]) as engine:
        engine.add_documents([Document("d", {"text": ("hibou",)})])
    with Engine.open(tmp_path / "c.quoth") as engine:
        assert as_values(engine.config, STORED_SECTIONS) == given
        assert engine.status()["settings"] == given


# Problems --------------------------------------------------------------------------------------


def test_all_problems_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        build_config(
            {
                "nonsense": {"a": 1},
                "passages": {"max_words": "many", "colour": "red"},
                "analyser": {"language": "klingon"},
                "readers": {"encoding": "utf-99", "max_line_bytes": 0},
                "collection": {"wait_seconds": -1.0, "batch_documents": 0},
            }
        )
    message = str(caught.value)
    for expected in (
        "there is no section [nonsense]; there are collection, readers, passages",
        "passages: max_words is 'many', expected a whole number",
        "[passages] has no field colour; it has max_words",
        "analyser: language is 'klingon', expected one of arabic",
        "readers: max_line_bytes is 0, expected at least 1; encoding is 'utf-99', expected a text",
        "collection: wait_seconds is -1.0, expected 0 to 1,000,000",
        "batch_documents is 0, expected at least 1",
    ):
        assert expected in message
    assert "\n" not in message


def test_an_engine_complains_before_it_touches_anything(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no section"):
        Engine.open(tmp_path / "c.quoth", settings=[{"lexicle": {}}])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("passages", "max_words", True),
        ("passages", "max_words", 2.0),
        ("passages", "fields", "title"),
        ("passages", "fields", [1]),
        ("analyser", "fold_accents", 1),
        ("analyser", "language", None),
        ("lexical", "default_boost", "1"),
        ("lexical", "default_boost", math.inf),
        ("lexical", "default_boost", math.nan),
        ("lexical", "default_boost", 10**400),
        ("lexical", "boosts", {"title": "2"}),
        ("lexical", "boosts", {"title": math.nan}),
        ("lexical", "boosts", ["title"]),
    ],
)
def test_values_of_the_wrong_type_are_refused(section: str, key: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=rf"{section}: {key}(\.title)? (is|has) .*, expected "):
        build_config({section: {key: value}})


def test_a_section_must_hold_fields() -> None:
    layers: Any = [{"lexical": 3}]
    with pytest.raises(ConfigError, match=r"\[lexical\] must hold fields"):
        build_config(*layers)


def test_whole_numbers_do_for_numbers() -> None:
    assert build_config({"collection": {"wait_seconds": 3}}).collection.wait_seconds == 3


# Text from a command line ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("passages.max_words", "90", 90),
        ("collection.wait_seconds", "1.5", 1.5),
        ("collection.wait_seconds", "2", 2.0),
        ("analyser.language", "german", "german"),
        ("analyser.fold_accents", "no", False),
        ("analyser.fold_accents", "TRUE", True),
        ("passages.fields", "title, text,", ("title", "text")),
        ("passages.fields", "", ()),
        ("lexical.boosts", "title=2,url=0", {"title": 2.0, "url": 0.0}),
        ("lexical.boosts", " a=b = 0.5 ", {"a=b": 0.5}),
        ("lexical.boosts", "", {}),
    ],
)
def test_text_is_read_by_the_type_of_the_field(name: str, text: str, value: object) -> None:
    section, key = name.split(".")
    values = overrides_from_text({name: text})
    assert values == {section: {key: value}}
    assert type(values[section][key]) is type(value)
    assert getattr(getattr(build_config(values), section), key) == value


def test_every_type_of_field_has_a_parser() -> None:
    assert len(FIELDS) > 10
    for section, key in FIELDS:
        try:
            overrides_from_text({f"{section}.{key}": "1"})
        except ConfigError as error:
            assert "expected" in str(error)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("passages.max_words", "ninety", "a whole number"),
        ("passages.max_words", "9.5", "a whole number"),
        ("collection.wait_seconds", "nan", "a number"),
        ("collection.wait_seconds", "inf", "a number"),
        ("analyser.fold_accents", "perhaps", "true or false"),
        ("lexical.boosts", "title", "name=weight pairs separated by commas"),
        ("lexical.boosts", "2", "name=weight pairs separated by commas"),
        ("lexical.boosts", "=2", "name=weight pairs separated by commas"),
        ("lexical.boosts", "title=inf", "name=weight pairs separated by commas"),
    ],
)
def test_text_that_does_not_fit_says_what_was_expected(name: str, text: str, expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        overrides_from_text({name: text})
    assert str(caught.value) == f"{name} is {text!r}, expected {expected}"


def test_problems_of_several_options_come_together() -> None:
    with pytest.raises(ConfigError) as caught:
        overrides_from_text({"a": "1", "lexical.x": "1", "passages.max_words": "x"})
    known = ", ".join(sections())
    assert str(caught.value) == (
        f"there is no setting a; the sections are {known}; there is no setting lexical.x;"
        " lexical has boosts, default_boost, compact_share;"
        " passages.max_words is 'x', expected a whole number"
    )


def test_what_can_be_read_is_checked_beside_what_cannot() -> None:
    with pytest.raises(ConfigError, match=r"fusion.depth is 'x'.*; dense: storage is 'fp8'"):
        overrides_from_text({"fusion.depth": "x", "dense.storage": "fp8"})


def test_assignments_name_a_setting_of_the_command() -> None:
    found = read_assignments(["dense.exact-limit = 3", "depth=5"], ["fusion", "dense"])
    assert found == {"dense.exact_limit": "3", "fusion.depth": "5"}
    with pytest.raises(ConfigError, match=r"lexical.boosts=1 names no section.*; --set depth sets"):
        read_assignments(["lexical.boosts=1", "depth"], ["fusion", "dense"])


NAMES = st.one_of(st.sampled_from([f"{section}.{key}" for section, key in FIELDS]), st.text())
TEXTS = st.one_of(
    st.text(),
    st.floats().map(str),
    st.integers().map(str),
    st.lists(st.tuples(st.text(max_size=3), st.floats())).map(
        lambda pairs: ",".join(f"{name}={value}" for name, value in pairs)
    ),
)


@given(st.dictionaries(NAMES, TEXTS, max_size=6))
def test_whatever_is_typed_is_read_or_refused(texts: dict[str, str]) -> None:
    try:
        build_config(overrides_from_text(texts))
    except ConfigError as error:
        assert str(error)


# TOML ------------------------------------------------------------------------------------------


def test_a_toml_file_becomes_settings(tmp_path: Path) -> None:
    path = _toml(
        tmp_path, '[lexical.boosts]\ntitle = 2\nurl = 0.5\n[passages]\nfields = ["title"]\n'
    )
    config = build_config(read_toml(path))
    assert config.lexical.boosts == {"title": 2, "url": 0.5}
    assert config.passages.fields == ("title",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[lexical\n", r"quoth\.toml is not valid TOML \(.*line 1"),
        ("a = 1\nb = 2\n[lexical]\n", r"quoth\.toml: a, b must be in a \[section\]"),
    ],
)
def test_bad_toml_is_named_with_its_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_toml(_toml(tmp_path, text))


def test_toml_that_is_no_utf8_or_not_there(tmp_path: Path) -> None:
    (tmp_path / "latin.toml").write_bytes(b"[a]\nb = '\xe9'\n")
    with pytest.raises(ConfigError, match=r"latin\.toml is not valid TOML"):
        read_toml(tmp_path / "latin.toml")
    with pytest.raises(ConfigError, match=r"none\.toml cannot be read \(No such file"):
        read_toml(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_toml(tmp_path)
