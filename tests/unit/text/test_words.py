"""The analyser: words found, terms made, places kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoth.errors import ConfigError
from quoth.text import words as module
from quoth.text.words import Analyser, AnalyserConfig, languages

ENGLISH = Analyser(AnalyserConfig())
TEXTS = (
    st.text(alphabet=st.characters(exclude_categories=["Cs"]))
    | st.text("aé'’東京ก ́_-3 ", max_size=40)
    | st.text("aB3'_- .\n\x1f\x7f", max_size=40)
    | st.text("aIÉßœİ'’“–²K \xa0\u2028_-", max_size=40)
)


@given(TEXTS)
def test_words_and_terms_agree_and_places_are_real(text: str) -> None:
    words = list(ENGLISH.words(text))
    assert [word.term for word in words] == ENGLISH.terms(text)
    assert all(0 <= word.start < word.end <= len(text) for word in words)
    assert [word.start for word in words] == sorted(word.start for word in words)


@given(TEXTS, st.integers(1, 3))
def test_wanted_words_are_placed_as_all_words_are(text: str, every: int) -> None:
    words = list(ENGLISH.words(text))
    wanted = {word.term for word in words[::every]}
    assert ENGLISH.find(text, wanted) == [word for word in words if word.term in wanted]


@given(TEXTS)
def test_terms_are_never_empty_and_hold_no_space(text: str) -> None:
    assert all(term and not any(map(str.isspace, term)) for term in ENGLISH.terms(text))


@given(TEXTS, TEXTS)
def test_terms_do_not_depend_on_what_stands_in_another_line(first: str, second: str) -> None:
    # The pattern is chosen by the characters of the whole text, yet must find the same words.
    assert ENGLISH.terms(f"{first}\n{second}") == ENGLISH.terms(first) + ENGLISH.terms(second)


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("os.path.join", ["os", "path", "join"]),
        ("is_edge_consistent", ["is", "edg", "consist"]),
        ("O'Neill's owl’s", ["o'neil", "owl"]),
        ("Ｆｕｌｌ ﬁles", ["full", "file"]),
        ("naïve NAIVE", ["naiv", "naiv"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("日本語", ["日本", "本語"]),
        ("日", ["日"]),
        ("", []),
        ("--- !!! \x00", []),
    ],
)
def test_examples(text: str, terms: list[str]) -> None:
    assert ENGLISH.terms(text) == terms


def test_a_language_stems_its_own_way() -> None:
    german = Analyser(AnalyserConfig(language="german"))
    assert german.terms("Häuser Haus") == ["haus", "haus"]
    assert Analyser(AnalyserConfig(language="none")).terms("Waiting") == ["waiting"]
    assert Analyser(AnalyserConfig(fold_accents=False)).terms("café") != ENGLISH.terms("cafe")


def test_an_unknown_language_is_refused_with_the_choices() -> None:
    with pytest.raises(ConfigError, match=r"'klingon', expected one of .*german"):
        AnalyserConfig(language="klingon")
    assert "english" in languages() and "none" in languages()


def test_identity_tells_settings_apart() -> None:
    assert ENGLISH.identity() != Analyser(AnalyserConfig(language="german")).identity()
    assert ENGLISH.identity()["language"] == "english"


def test_a_very_long_word_is_found_by_itself() -> None:
    blob = "x" * 100_000
    assert ENGLISH.terms(blob) == ENGLISH.terms(blob) and len(ENGLISH.terms(blob)[0]) == 100


def test_words_at_hand_stay_few_and_terms_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"waiting{at} cafés-{at} an owl's" for at in range(50)]
    texts += [f"waiters{at} an owl's" for at in range(50)]
    expected = [ENGLISH.terms(text) for text in texts]
    monkeypatch.setattr(module, "_MAX_CACHED_WORDS", 10)
    ENGLISH._cache.clear()
    ENGLISH._chunks.clear()
    for text, terms in zip(texts, expected, strict=True):
        assert ENGLISH.terms(text) == terms
        assert len(ENGLISH._cache) <= 10 and len(ENGLISH._chunks) <= 10
