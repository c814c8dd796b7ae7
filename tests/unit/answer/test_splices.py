"""Following a quotation through its passages, phrase by phrase and word by word."""

from __future__ import annotations

from quoth.answer.splices import OpenQuotation
from quoth.records import Span
from quoth.vocabulary.dynamic import Candidate, Source

PASSAGES = ("A barn owl, so 3.5 kg,\nhunts at night. Hens sleep.", "A raven hunts at dawn.")
WORDS = [" owl", ",", " so", " 3", ".", "5", " hens", " not", "\N{REPLACEMENT CHARACTER}"]


def decode(ids: object) -> str:
    return "".join(WORDS[each] for each in ids)  # type: ignore[attr-defined]


def phrase(text: str, *numbers: int) -> Candidate:
    places = [(each, PASSAGES[each].index(text)) for each in numbers]
    sources = tuple(Source(each, Span(at, at + len(text))) for each, at in places)
    return Candidate(" " + text, (), sources)


def quoting(*phrases: Candidate) -> OpenQuotation:
    found = OpenQuotation(PASSAGES, decode)
    for each in phrases:
        found.quote(each)
    return found


def test_a_phrase_goes_on_where_the_one_before_ended() -> None:
    found = quoting(phrase("A barn", 0))
    assert found.is_open
    assert found.goes_on(phrase("owl, so", 0)) and not found.goes_on(phrase("hunts at", 0, 1))


def test_a_phrase_of_two_places_is_followed_where_the_text_came_from() -> None:
    found = quoting(phrase("A raven", 1), phrase("hunts at", 0, 1))
    assert found.goes_on(phrase("dawn.", 1)) and not found.goes_on(phrase("night.", 0))
    found.quote(phrase("dawn.", 1))
    assert not found.is_open


def test_a_plain_word_opens_no_way_to_another_place() -> None:
    found = quoting(phrase("A barn", 0))
    found.write([7])  # "not", which the passage does not say
    assert found.is_open
    assert not found.goes_on(phrase("hunts at", 0, 1)) and found.goes_on(phrase("owl, so", 0))


def test_plain_words_that_the_passage_spells_are_followed() -> None:
    found = quoting(phrase("A barn", 0))
    for number in (0, 1, 2, 3):
        found.write([number])
    found.write([4])  # "3." ends no sentence where the passage goes on with 5
    assert found.is_open
    found.write([5])
    assert found.goes_on(phrase("kg,", 0)) and not found.goes_on(phrase("A raven", 1))


def test_what_is_no_whole_character_yet_is_waited_for() -> None:
    found = quoting(phrase("A barn", 0))
    found.write([8])
    assert found.goes_on(phrase("owl, so", 0))


def test_a_plain_stop_ends_the_sentence() -> None:
    found = quoting(phrase("hunts at", 1))
    found.write([6])
    found.write([4])
    assert not found.is_open
