"""Passages: every promise of `cut_text` as a property, then examples one can read."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.errors import ConfigError
from quoth.records import Document, Passage, Span
from quoth.text import blocks, passages
from quoth.text.blocks import count_words, split_sentences
from quoth.text.passages import PassageConfig, cut_document, cut_text

PIECES = [
    *("a", "raven", "Spoke", "e.g.", "Dr.", "U.S.", "3.5", "12", "J.", "…", "...", "?", "!", ". "),
    *("\n", "\n\n", "\r\n", "\r\n\r\n", "\r", "\t", " ", "   ", "\0", "\x0c", "\u2028", "\xa0"),
    *("# ", "#\n", "## Part\n", "\n===\n", "\n---\n", "~~~~~\n", "```\n", "```py\n", "- ", "1. "),
    *(
        "大",
        "鸦。",
        "「永不！」",
        "か\u3099",
        "カ",
        "，",
        "까마귀",
        "ไม่",
        "é",
        "e\u0301",
        "😀",
        "\u200d",
    ),
    *('"', "'", ")", "(", "x" * 2000, "y" * 4321, "." * 2001, "大" * 30, "กำ" * 1500),
]
ANY_CHARACTER = st.characters(exclude_categories=["Cs"])
TEXTS = st.lists(
    st.one_of(st.sampled_from(PIECES), st.text(ANY_CHARACTER, max_size=5)), max_size=40
).map("".join)


@st.composite
def configs(draw: st.DrawFn, *, with_overlap: bool = True) -> PassageConfig:
    max_words = draw(st.integers(1, 12) | st.just(180))
    overlap = draw(st.integers(0, max_words - 1)) if with_overlap else 0
    return PassageConfig(max_words=max_words, overlap_words=overlap)


def cut(text: str, max_words: int, overlap_words: int = 0) -> list[str]:
    config = PassageConfig(max_words=max_words, overlap_words=overlap_words)
    return [text[span.start : span.end] for span in cut_text(text, config)]


def sentences(text: str) -> list[str]:
    return [text[span.start : span.end] for span in split_sentences(text)]


# --- promises ------------------------------------------------------------------------------------


@given(TEXTS | st.text("a,.\n\t \r\x0b\x1c\x1f\x7f\xa0é"))
def test_words_are_counted_as_the_pattern_finds_them(text: str) -> None:
    assert count_words(text) == len(blocks._WORD.findall(text))


@settings(deadline=None)
@given(TEXTS, configs())
def test_no_character_is_lost(text: str, config: PassageConfig) -> None:
    covered = {at for span in cut_text(text, config) for at in range(span.start, span.end)}
    assert all(at in covered or character.isspace() for at, character in enumerate(text))


@settings(deadline=None)
@given(st.text(" \tabé.#-", max_size=60), configs())
def test_the_short_cut_for_short_lines_gives_what_the_long_way_gives(
    text: str, config: PassageConfig
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passages, "_fits_at_a_glance", lambda _text, _max_words: False)
        long_way = cut_text(text, config)
    assert cut_text(text, config) == long_way


PROSE = st.lists(
    st.sampled_from(
        [
            *("raven", "Owls", "hunt.", "Dr. Poe", "3.", "e.g.", 'said."', "...", "?!", "é."),
            *("U.S.", "\n", "\n\n", "# Birds\n", "- an owl", "x" * 2001, "大鸦。", "\x85", "…"),
        ]
    ),
    max_size=60,
).map(" ".join)


@settings(deadline=None)
@given(PROSE, configs(with_overlap=False))
def test_leaping_over_sentences_and_words_cuts_where_one_by_one_does(
    text: str, config: PassageConfig
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passages._Packer, "_can_leap", lambda _packer, _unit: False)
        one_by_one = cut_text(text, config)
    assert cut_text(text, config) == one_by_one


def test_a_sentence_longer_than_the_look_back_is_still_found_to_end() -> None:
    long_one = "Owls " + "hunt " * 150 + "mice."  # far more than 300 characters
    assert cut(f"{long_one} A raven spoke. It said a word.", 155) == [
        f"{long_one} A raven spoke.",
        "It said a word.",
    ]


@settings(deadline=None)
@given(TEXTS, configs())
def test_spans_are_trimmed_and_not_empty(text: str, config: PassageConfig) -> None:
    for span in cut_text(text, config):
        passage = text[span.start : span.end]
        assert passage and passage == passage.strip()


@settings(deadline=None)
@given(TEXTS, configs())
def test_no_passage_exceeds_the_budget(text: str, config: PassageConfig) -> None:
    for span in cut_text(text, config):
        assert count_words(text[span.start : span.end]) <= config.max_words


@settings(deadline=None)
@given(TEXTS, configs())
def test_spans_are_in_order_and_each_brings_something_new(text: str, config: PassageConfig) -> None:
    for before, after in pairwise(cut_text(text, config)):
        assert before.start < after.start and before.end < after.end


@settings(deadline=None)
@given(TEXTS, configs(with_overlap=False))
def test_without_overlap_no_character_is_in_two_passages(text: str, config: PassageConfig) -> None:
    assert all(before.end <= after.start for before, after in pairwise(cut_text(text, config)))


@settings(deadline=None)
@given(TEXTS, configs())
def test_overlap_repeats_no_more_words_than_configured(text: str, config: PassageConfig) -> None:
    for before, after in pairwise(cut_text(text, config)):
        assert count_words(text[after.start : before.end]) <= config.overlap_words


@settings(deadline=None)
@given(TEXTS, configs())
def test_the_same_text_is_cut_the_same_way(text: str, config: PassageConfig) -> None:
    assert cut_text(text, config) == cut_text(text, config)


@settings(deadline=None)
@given(st.lists(st.sampled_from(["# Title", "one two three four. Five six seven."]), max_size=9))
def test_a_heading_starts_a_passage_and_never_ends_one_before_text(blocks: list[str]) -> None:
    text = "\n\n".join(blocks)
    spans = cut_text(text, PassageConfig(max_words=9))
    for span in spans:
        assert "four" not in text[span.start : span.end].partition("#")[0] or (
            "#" not in text[span.start : span.end]
        )
        if text[span.start : span.end].endswith("# Title"):
            assert not text[span.end :].lstrip().startswith("one")


@settings(deadline=None)
@given(TEXTS)
def test_sentences_lose_no_character(text: str) -> None:
    kept = "".join(sentences(text))
    assert "".join(kept.split()) == "".join(text.split())


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_counting_pieces_never_gives_less_than_counting_the_whole(left: str, right: str) -> None:
    assert count_words(left + right) <= count_words(left) + count_words(right)


# --- examples ------------------------------------------------------------------------------------


def test_short_text_is_one_passage() -> None:
    assert cut("  Once upon a midnight dreary.\n", 10) == ["Once upon a midnight dreary."]


@pytest.mark.parametrize("text", ["", " ", "\n\r\n\t\u3000"])
def test_blank_text_has_no_passages(text: str) -> None:
    assert cut(text, 10) == []


def test_paragraphs_are_packed_up_to_the_budget() -> None:
    assert cut("one two\n\nthree\n\nfour five six", 3) == ["one two\n\nthree", "four five six"]


def test_a_paragraph_over_budget_is_cut_along_its_sentences() -> None:
    assert cut("One two. Three four five. Six.", 4) == ["One two.", "Three four five. Six."]


def test_a_sentence_over_budget_is_cut_along_lines_then_words() -> None:
    assert cut("one two\nthree four five", 3) == ["one two", "three four five"]
    assert cut("one two three four five", 2) == ["one two", "three four", "five"]


@pytest.mark.parametrize(
    "heading",
    [
        *("# Two", "### Two ###", "  # Two", "Two\n===", "Two\n---", "Two\n~~~", "Two\r\n==="),
        "=====\nTwo\n=====",
    ],
)
def test_a_heading_starts_a_new_passage(heading: str) -> None:
    heading_and_body = f"{heading}\n\nbody"
    assert cut(f"before\n\n{heading_and_body}", 180) == ["before", heading_and_body.strip()]


@pytest.mark.parametrize(
    "line",
    [
        *("#hashtag", "####### seven", "    # code", "Two\n~~", "Longer\n~~~", "- item\n---"),
        *("Two\n\n---", "!!\n---", "---", "===\nTwo\n---x"),
    ],
)
def test_what_is_no_heading_stays_in_the_passage(line: str) -> None:
    assert cut(f"before\n\n{line}\n\nbody", 180) == [f"before\n\n{line}\n\nbody"]


def test_a_heading_keeps_the_start_of_a_paragraph_that_does_not_fit_whole() -> None:
    assert cut("# Two\n\nOne. Two three four five.", 6) == ["# Two\n\nOne.", "Two three four five."]
    assert cut("# Two\n\none two three", 4) == ["# Two\n\none two", "three"]


def test_headings_in_a_row_stay_together() -> None:
    assert cut("a\n\n# One\n## Two\nb", 180) == ["a", "# One\n## Two\nb"]


def test_a_heading_over_budget_is_cut_like_text() -> None:
    assert cut("a\n\n# One two three\n\nb", 3) == ["a", "# One two", "three\n\nb"]


def test_a_heading_at_the_end_is_a_passage() -> None:
    assert cut("body\n\n# End", 180) == ["body", "# End"]


def test_fenced_code_is_one_unit_and_hides_headings() -> None:
    code = "```sh\n# comment\n\nls. Then\n```"
    assert cut(f"one two\n{code}\nthree", 6) == ["one two", code, "three"]


def test_fenced_code_over_budget_is_cut_along_its_lines() -> None:
    assert cut("```\na b\nc d\n```", 3) == ["```\na b", "c d\n```"]


def test_a_fence_that_never_closes_holds_the_rest() -> None:
    assert cut("~~~\n# a\n\n# b", 180) == ["~~~\n# a\n\n# b"]


def test_list_items_are_units() -> None:
    assert cut("- One. Two.\n- Three four\n  five.\n2) Six.", 6) == [
        "- One. Two.",
        "- Three four\n  five.\n2) Six.",
    ]


def test_overlap_repeats_the_last_words() -> None:
    assert cut("one two three four five six", 4, 2) == ["one two three four", "three four five six"]


def test_overlap_never_repeats_a_whole_passage() -> None:
    assert cut("a b\n\nc d e\n\nf g", 4, 2) == ["a b", "b\n\nc d e", "d e\n\nf g"]
    assert cut("a\n\nb c", 2, 1) == ["a", "b c"]


def test_overlap_repeats_nothing_before_a_heading() -> None:
    assert cut("one two\n\n# Title\n\nthree", 4, 3) == ["one two", "# Title\n\nthree"]


def test_cjk_characters_are_words_and_their_stops_end_sentences() -> None:
    assert cut("大鸦说。永不！", 4) == ["大鸦说。", "永不！"]
    assert cut("大鸦说，永不", 4) == ["大鸦说，", "永不"]
    assert cut("大鸦说永不", 2) == ["大鸦", "说永", "不"]


def test_hangul_counts_by_spaces() -> None:
    assert count_words("까마귀가 말했다") == 2


def test_a_combining_mark_stays_with_its_kana() -> None:
    assert cut("か\u3099き\u3099", 1) == ["か\u3099", "き\u3099"]


def test_an_absurdly_long_word_is_cut_into_pieces_of_2000_characters() -> None:
    assert [len(passage) for passage in cut("a" * 4500, 1)] == [2000, 2000, 500]


def test_a_long_word_is_not_cut_before_a_mark() -> None:
    first, second = cut("a" + "e\u0301" * 1500, 1)
    assert len(first) == 1999 and second.startswith("e")


def test_a_word_of_2000_characters_is_left_whole() -> None:
    assert cut("b" * 2000 + " c", 1) == ["b" * 2000, "c"]


@pytest.mark.parametrize(
    "text",
    [
        *("See Dr. Poe.", "See Fig. 3 there.", "Poe et al. Wrote it.", "It is No. 5 here."),
        *("Cats vs. Dogs.", "The U.S. Army.", "By J. K. Rowling.", "It costs 3.5 pounds."),
        *(
            "Well... maybe.",
            "Well… maybe.",
            "Ravens, e.g. Odin's.",
            "Am 3. Oktober.",
            "“Why?” he said.",
        ),
        *("Yahoo! is old.", "see quoth.org today", "A Ph.D. Student."),
    ],
)
def test_one_sentence(text: str) -> None:
    assert sentences(text) == [text]


@pytest.mark.parametrize(
    "text",
    [
        *("He said no. |Then he left.", "Why? |Because!", "“Go.” |He went.", "(Go!) |He went."),
        *(
            "Since 1845. |Then more.",
            "Well... |Maybe.",
            "Really?! |Yes.",
            "他说。|她听！」|完",
            "One.\n|Two.",
        ),
        *("ठीक है। |अच्छा।", "It is 3.5. |Then 4.", "He left. |2 came back."),
    ],
)
def test_several_sentences(text: str) -> None:
    assert sentences(text.replace("|", "")) == [part.strip() for part in text.split("|")]


@pytest.mark.parametrize(
    "text", ["a" * 100_000, "\n" * 100_000, ". . . " * 5_000, "#\n" * 20_000, "." * 100_000 + "a"]
)
def test_pathological_texts_are_cut(text: str) -> None:
    spans = cut_text(text, PassageConfig())
    assert sum(count_words(text[span.start : span.end]) for span in spans) == count_words(text)


# --- documents and configuration -----------------------------------------------------------------


DOCUMENT = Document("d1", {"title": ("Raven",), "body": ("One two. Three.", "", "Four.")})


def test_cut_document_keeps_fields_and_instances_in_order() -> None:
    assert cut_document(DOCUMENT, PassageConfig(max_words=2)) == (
        Passage("d1", "title", Span(0, 5), "Raven", 0),
        Passage("d1", "body", Span(0, 8), "One two.", 0),
        Passage("d1", "body", Span(9, 15), "Three.", 0),
        Passage("d1", "body", Span(0, 5), "Four.", 2),
    )


def test_cut_document_cuts_only_the_configured_fields() -> None:
    passages = cut_document(DOCUMENT, PassageConfig(fields=("title", "absent")))
    assert [passage.field for passage in passages] == ["title"]


def test_config_reports_all_problems_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        PassageConfig(max_words=0, overlap_words=7, fields=("",))
    assert str(caught.value) == (
        "passages: max_words is 0, expected at least 1;"
        " fields has '', expected nonempty names;"
        " overlap_words is 7, expected less than max_words (0)"
    )


def test_config_refuses_a_negative_overlap() -> None:
    with pytest.raises(ConfigError, match="overlap_words is -1, expected 0 or more"):
        PassageConfig(overlap_words=-1)
