"""Citations: whatever the tokens, every quotation is its source character for character."""

from __future__ import annotations

import re
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_language_model import TEXTS, train_tokenizer

from quoth.answer.candidates import make_vocabulary
from quoth.answer.cite import (
    Piece,
    Token,
    Writer,
    cite,
    document_span,
    number_sources,
    unquoted,
    with_markers,
)
from quoth.answer.config import CandidateConfig
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.inputs import DynamicLMInputs
from quoth.records import Answer, Citation, Passage, Span
from quoth.vocabulary.dynamic import DynamicVocabulary, Source

INPUTS = DynamicLMInputs(train_tokenizer(), DynamicLMConfig(), max_positions=2048)
PASSAGE_TEXT = st.one_of(
    st.text(max_size=60),
    st.text(alphabet="ab [1]\\\n<|im_end|>大鸦é😀", max_size=60),
    st.sampled_from(TEXTS),
)


def write_pieces(tokens: list[Token], vocabulary: DynamicVocabulary) -> list[Piece]:
    """Turn the tokens of a whole text into pieces."""
    writer = Writer(INPUTS.text)
    pieces = [piece for token in tokens for piece in writer.write(token, vocabulary)]
    return [*pieces, *writer.close()]


def passages_of(*texts: str) -> list[Passage]:
    return [
        Passage(f"d{at}", "text", Span(7 * at, 7 * at + len(text)), text)
        for at, text in enumerate(texts)
    ]


def quoted(answer: Answer) -> list[str]:
    return [answer.text[each.answer_span.start : each.answer_span.end] for each in answer.citations]


def check(answer: Answer) -> None:
    """Every promise about citations."""
    end = 0
    for citation in answer.citations:
        own, source = citation.answer_span, citation.passage_span
        words = answer.text[own.start : own.end]
        assert words == citation.passage.text[source.start : source.end]
        assert words.strip() and own.start >= end
        end = own.end
    covered = sorted([*(each.answer_span for each in answer.citations), *unquoted(answer)])
    assert all(a.end <= b.start for a, b in pairwise(covered))
    assert sum(len(answer.text[each.start : each.end].split()) > 0 for each in covered) == len(
        covered
    )
    assert "".join("".join(answer.text[each.start : each.end].split()) for each in covered) == (
        "".join(answer.text.split())
    )


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_every_citation_slices_equal_for_any_texts_and_tokens(data: st.DataObject) -> None:
    texts = data.draw(st.lists(PASSAGE_TEXT, max_size=3))
    config = CandidateConfig(min_subwords=1, max_candidates=60)
    vocabulary = make_vocabulary("owl?", texts, tokenise=INPUTS.tokenise_all, config=config)
    subword = st.integers(0, INPUTS.tokenizer.get_vocab_size() - 1).map(
        lambda each: Token((each,), None)
    )
    rows = range(len(vocabulary.candidates))
    phrase = st.sampled_from(rows).map(
        lambda row: Token(vocabulary.candidates[row].subword_ids, row)
    )
    tokens = data.draw(st.lists(subword | phrase if rows else subword, max_size=12))
    pieces = write_pieces(tokens, vocabulary)
    passages = passages_of(*texts)
    answer = cite(pieces, passages)
    check(answer)
    assert answer.text == "".join(piece.text for piece in pieces).rstrip()
    phrases = [vocabulary.candidates[each.row] for each in tokens if each.row is not None]
    assert sum(len(each.text.strip()) for each in phrases) <= sum(map(len, quoted(answer)))
    assert read_markers(with_markers(answer)) == (
        answer.text,
        [(each.answer_span.end, number_sources(answer)[each.passage]) for each in answer.citations],
    )


def read_markers(written: str) -> tuple[str, list[tuple[int, int]]]:
    """Undo `with_markers`: the bare text, and each marker's place and number."""
    text, markers, at = "", [], 0
    for found in re.finditer(r"(\\*)\[(\d+)\]", written):
        text += written[at : found.start()] + "\\" * (len(found[1]) // 2)
        if len(found[1]) % 2:
            text += f"[{found[2]}]"
        else:
            markers.append((len(text), int(found[2])))
        at = found.end()
    return text + written[at:], markers


def test_pieces_write_what_the_unfolded_subwords_say() -> None:
    config = CandidateConfig()
    texts = [TEXTS[0], "Grüße 😀 an die Eule"]
    vocabulary = make_vocabulary("owl", texts, tokenise=INPUTS.tokenise_all, config=config)
    subwords = INPUTS.tokenise("Ja 😀: é").subword_ids
    tokens = [Token((each,), None) for each in subwords]
    tokens += [Token(each.subword_ids, row) for row, each in enumerate(vocabulary.candidates)]
    pieces = write_pieces(tokens, vocabulary)
    unfolded = [subword for token in tokens for subword in token.subword_ids]
    assert "".join(piece.text for piece in pieces) == INPUTS.text(unfolded)
    assert "\N{REPLACEMENT CHARACTER}" not in "".join(piece.text for piece in pieces)


def test_phrases_that_go_on_in_one_source_are_one_citation() -> None:
    passages = passages_of("a barn owl hunts at night", "owl hunts")
    pieces = [
        Piece("barn owl", (Source(0, Span(2, 10)),)),
        Piece(" hunts at", (Source(0, Span(11, 19)),)),
        Piece(" night", (Source(0, Span(20, 25)),)),
    ]
    answer = cite(pieces, passages)
    assert quoted(answer) == ["barn owl hunts at night"]
    assert document_span(answer.citations[0]) == Span(2, 25)
    far = cite([pieces[0], Piece(" never"), pieces[1]], passages)
    assert quoted(far) == ["barn owl", "hunts at"] and unquoted(far) == (Span(8, 15),)


def test_another_space_in_the_source_keeps_quotations_apart() -> None:
    passages = passages_of("barn\nowl, hunts")
    pieces = [Piece("barn", (Source(0, Span(0, 4)),)), Piece(" owl", (Source(0, Span(5, 8)),))]
    assert quoted(cite(pieces, passages)) == ["barn", "owl"]
    hunts = Piece(" hunts", (Source(0, Span(10, 15)),))
    assert quoted(cite([pieces[1], Piece(","), hunts], passages)) == ["owl, hunts"]
    assert quoted(cite([pieces[1], Piece(","), hunts], passages, max_gap=1)) == ["owl", "hunts"]


def test_of_several_sources_the_one_that_continues_its_neighbours_is_cited() -> None:
    passages = passages_of("the owl", "the owl sleeps", "owl")
    the_owl = Piece("the owl", (Source(0, Span(0, 7)), Source(1, Span(0, 7))))
    sleeps = Piece(" sleeps", (Source(1, Span(8, 14)),))
    assert [each.passage.docid for each in cite([the_owl, sleeps], passages).citations] == ["d1"]
    assert [each.passage.docid for each in cite([the_owl], passages).citations] == ["d0"]
    near = cite([the_owl, Piece(" now and then"), sleeps], passages)
    assert [each.passage.docid for each in near.citations] == ["d1", "d1"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.sampled_from("abc"), min_size=1, max_size=5),
)
def test_no_other_choice_of_sources_needs_fewer_citations(
    texts: list[list[str]], words: list[str]
) -> None:
    passages = passages_of(*(" ".join(each) for each in texts))
    offered = [
        [
            Source(number, Span(2 * at, 2 * at + 1))
            for number, text in enumerate(texts)
            for at, each in enumerate(text)
            if each == word
        ]
        for word in words
    ]
    pieces = [
        Piece(word if at == 0 else f" {word}", tuple(sources))
        for at, (word, sources) in enumerate(zip(words, offered, strict=True))
    ]
    answer = cite(pieces, passages)
    check(answer)
    fewest = min(
        len(
            cite(
                [
                    Piece(piece.text, (one,) if one else ())
                    for piece, one in zip(pieces, choice, strict=True)
                ],
                passages,
            ).citations
        )
        for choice in product(*(sources or [None] for sources in offered))
    )
    assert len(answer.citations) == fewest


def test_words_of_the_models_own_between_two_phrases_are_quoted_if_the_source_has_them() -> None:
    passages = passages_of("a tuple containing the paths names.")
    pieces = [
        Piece("tuple containing", (Source(0, Span(2, 18)),)),
        Piece(" the"),
        Piece(" paths names.", (Source(0, Span(23, 35)),)),
    ]
    assert quoted(cite(pieces, passages)) == ["tuple containing the paths names."]
    other = cite([pieces[0], Piece(" all"), pieces[2]], passages)
    assert quoted(other) == ["tuple containing", "paths names."]


def test_a_phrase_is_cited_where_it_continues_the_one_before_even_if_not_offered_there() -> None:
    passages = passages_of("An owl sleeps. At night hunts mice.", "There an owl hunts mice.")
    pieces = [
        Piece("an owl", (Source(1, Span(6, 12)),)),
        Piece(" hunts mice.", (Source(0, Span(24, 35)),)),
    ]
    answer = cite(pieces, passages)
    assert [each.passage_span for each in answer.citations] == [Span(6, 24)]
    assert quoted(cite(pieces[::-1], passages)) == ["hunts mice.", "an owl"]


def test_a_phrase_is_not_cited_where_it_is_part_of_a_longer_word() -> None:
    passages = passages_of("my owl", "barn owls")
    pieces = [Piece("barn", (Source(1, Span(0, 4)),)), Piece(" owl", (Source(0, Span(3, 6)),))]
    assert [each.passage.docid for each in cite(pieces, passages).citations] == ["d1", "d0"]


def test_of_two_places_in_one_passage_the_nearest_is_cited() -> None:
    passages = passages_of("the owl rests. By day it is still. At night the owl hunts.")
    pieces = [
        Piece("At night", (Source(0, Span(35, 43)),)),
        Piece(" it is clear that"),
        Piece(" the owl", (Source(0, Span(0, 7)), Source(0, Span(44, 51)))),
    ]
    spans = [each.passage_span for each in cite(pieces, passages).citations]
    assert spans == [Span(35, 43), Span(44, 51)]
    assert cite(pieces[2:], passages).citations[0].passage_span == Span(0, 7)


def test_a_passage_that_says_one_thing_all_over_is_cited() -> None:
    passages = passages_of("ab cd, " * 400)
    answer = cite(
        [
            Piece("ab cd,", (Source(0, Span(0, 6)),)),
            *[Piece(" ab cd,", (Source(0, Span(0, 6)),))] * 30,
        ],
        passages,
    )
    check(answer)
    assert len(answer.citations) == 1


def test_a_source_that_does_not_hold_the_words_is_never_cited() -> None:
    passages = passages_of("barn owl")
    answer = cite([Piece("raven", (Source(0, Span(0, 5)),))], passages)
    assert answer.citations == () and unquoted(answer) == (Span(0, 5),)


def test_passages_are_numbered_by_first_use_and_imitations_escaped() -> None:
    passages = passages_of("see [1] there", "barn owl")
    pieces = [
        Piece("barn owl", (Source(1, Span(0, 8)),)),
        Piece(", [2] says\\"),
        Piece(" see [1]", (Source(0, Span(0, 7)),)),
    ]
    answer = cite(pieces, passages)
    assert [number_sources(answer)[each.passage] for each in answer.citations] == [1, 2]
    assert with_markers(answer) == "barn owl[1], \\[2] says\\ see \\[1][2]"


def test_a_backslash_before_a_marker_is_doubled() -> None:
    passage = Passage("a", "text", Span(0, 2), "x\\")
    answer = Answer("x\\", (Citation(Span(0, 2), passage, Span(0, 2)),))
    assert with_markers(answer) == "x\\\\[1]"


@pytest.mark.parametrize("text", ["", "  ", "\n"])
def test_an_empty_text_has_no_citations(text: str) -> None:
    assert cite([Piece(text)], []).text == ""
