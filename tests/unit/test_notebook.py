"""What a notebook shows: marked where it should be, and never markup of a document's own."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest

from quoth.records import (
    Answer,
    Citation,
    Hit,
    Part,
    Passage,
    ShownAnswer,
    ShownHit,
    ShownHits,
    Snippet,
    Span,
)

EVIL = "<script>alert('x')</script>\u202e\"&"
PASSAGE = Passage(EVIL, EVIL, Span(0, len(EVIL)), EVIL)
HIT = Hit(EVIL, 1.5, PASSAGE)
SHOWN = ShownHit(
    1,
    HIT,
    title=EVIL,
    snippet=Snippet(EVIL, Span(0, 5), (Span(1, 4),)),
    explanation=Part(EVIL, 1.5, (Part(EVIL, 1.5),)),
)
ANSWER = Answer(f"So: {EVIL}.", (Citation(Span(4, 4 + len(EVIL)), PASSAGE, Span(0, 3)),))
SAFE = {"div", "p", "ol", "ul", "li", "b", "span", "mark", "sup", "code"}


class _Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert {name for name, _value in attrs} <= {"style", "value"}
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize(
    "record",
    [HIT, ShownHits((SHOWN,), EVIL), ANSWER, ShownAnswer(EVIL, ANSWER, (), EVIL), Part(EVIL, 1.0)],
    ids=lambda each: type(each).__name__,
)
def test_nothing_of_a_document_becomes_markup(record: object) -> None:
    found = _Tags(record._repr_html_())  # type: ignore[attr-defined]
    assert found.tags and set(found.tags) <= SAFE
    assert "<script>" in found.text and "\u202e" not in found.text


def test_quotations_are_marked_and_numbered() -> None:
    first = Passage("owl", "text", Span(0, 9), "It hunts.")
    cited = (
        Citation(Span(0, 8), first, Span(0, 8)),
        Citation(Span(10, 14), Passage("hen", "text", Span(0, 4), "Hens"), Span(0, 4)),
    )
    found = Answer("It hunts; Hens do not.", cited)._repr_html_()
    assert found.count("<mark") == 2 and "<sup>1</sup>; " in found and "<sup>2</sup> do" in found
    assert found.count("<li>") == 2 and "text 0–8" in found
