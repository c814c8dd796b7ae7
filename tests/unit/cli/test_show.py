"""What is printed: nothing in a document can command the terminal or pass for markup."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from quoth.cli import show
from quoth.records import Attention, Hit, Part, Passage, ShownHit, Snippet, Span, WordShare
from quoth.text import display

HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07 \x9b31m \u202egnp.exe\u202c \u2066x\u2069 \u200f [red]x[/red] [link=a]"
)
DANGEROUS = "\x1b\x07\x9b\u202e\u202c\u2066\u2069\u200f\x00\x7f\x85\u2028"


def _print(renderable: object, *, width: int = 100, colour: bool = False) -> str:
    stream = io.StringIO()
    console = Console(
        file=stream,
        width=width,
        highlight=False,
        force_terminal=colour,
        color_system="standard" if colour else None,
    )
    console.print(renderable)
    return stream.getvalue()


def _assert_harmless(text: str) -> None:
    assert not set(text) & set(DANGEROUS), repr(text)
    assert "[red]x[/red]" in text and "[link=a]" in text, "markup must be shown, not obeyed"


def _hit_text(title: str, docid: str, text: str, *, highlights: tuple[Span, ...] = ()) -> object:
    snippet = Snippet(text, Span(0, len(text)), highlights)
    return show.hit_text(ShownHit(1, Hit(docid, 1.5), title, snippet=snippet))


@pytest.mark.parametrize("character", DANGEROUS)
def test_each_dangerous_character_is_replaced(character: str) -> None:
    assert display.make_safe(f"a{character}b") == "a\N{REPLACEMENT CHARACTER}b"


def test_harmless_text_stays_as_it_is() -> None:
    text = "naïve 東京 🦉 a\tb\nc [x] עברית"
    assert display.make_safe(text) == text


def test_hostile_title_docid_and_text_come_out_harmless() -> None:
    printed = _print(_hit_text(HOSTILE, "id " + HOSTILE, HOSTILE), width=400)
    _assert_harmless(printed)
    assert printed.count("[red]x[/red]") == 3


def test_words_looked_at_are_listed_and_harmless() -> None:
    words = (WordShare("owl", 0.256), WordShare(HOSTILE, 0.1))
    printed = _print(show.attention_text(Attention(words, ())), width=400)
    _assert_harmless(printed)
    assert "attention in the query: owl 0.26, " in printed
    assert "attention in the document: no words" in printed


def test_hostile_cells_labels_and_values_come_out_harmless() -> None:
    _assert_harmless(_print(show.table("t", ["name", "count"], [[HOSTILE, "1"]]), width=200))
    _assert_harmless(_print(show.part_tree(Part(HOSTILE, 1.0, (Part(HOSTILE, 1.0),))), width=200))
    _assert_harmless("\n".join(show.key_values({"fields": [HOSTILE], "name": HOSTILE})))
    _assert_harmless("\n".join(show.key_values({HOSTILE: {HOSTILE: 1}})))


def test_hostile_table_titles_and_columns_come_out_harmless() -> None:
    printed = _print(show.table(HOSTILE, [HOSTILE, HOSTILE], [["a", "b"]]), width=400)
    _assert_harmless(printed)


def test_messages_come_out_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    show.error(HOSTILE)
    show.note(HOSTILE)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 2
    _assert_harmless(captured.err)


def test_json_escapes_what_a_terminal_might_obey(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"text": HOSTILE + DANGEROUS + "東京 é\n", "é": ["\ud800"]}
    show.print_json(value)
    printed = capsys.readouterr().out
    assert not set(printed) & set(DANGEROUS) and "東京 é" in printed
    assert json.loads(printed) == value


def test_highlights_stay_on_their_words_beside_replaced_characters() -> None:
    text = "\x1b\towl\nand\u202eowl"
    spans = (Span(2, 5), Span(10, 13))
    assert [text[span.start : span.end] for span in spans] == ["owl", "owl"]
    printed = _print(_hit_text("t", "d", text, highlights=spans), colour=True)
    assert printed.count("\x1b[1;33mowl\x1b[0m") == 2


def test_line_ends_of_windows_show_as_spaces() -> None:
    text = "The boiler.\r\n\r\nThe pump."
    shown = _print(_hit_text("t", "d", text, highlights=(Span(15, 18),)), colour=True)
    assert display.UNSAFE.sub("", text) != text and "\N{REPLACEMENT CHARACTER}" not in shown
    assert "\x1b[1;33mThe\x1b[0m" in shown


def test_a_title_is_one_line_and_a_long_docid_loses_its_middle() -> None:
    printed = _print(_hit_text("a\n b\t\tc", "start" + "x" * 500 + "end", "text"), width=150)
    head, body = printed.splitlines()
    assert head.startswith(" 1. a b c  1.500  startxxx") and head.endswith("xxxend")
    assert "…" in head and len(head) <= 110
    assert body == "    text"


def test_without_a_title_the_docid_heads_the_hit_once() -> None:
    assert _print(_hit_text("", "notes/a.txt", "text")).splitlines()[0] == " 1. notes/a.txt  1.500"
    assert _print(_hit_text("same", "same", "text")).splitlines()[0] == " 1. same  1.500"


def test_a_hit_without_a_passage_is_one_line() -> None:
    assert _print(show.hit_text(ShownHit(12, Hit("d", 0.25), "Owls"))) == "12. Owls  0.250  d\n"


def test_a_long_snippet_is_wrapped_and_indented() -> None:
    lines = _print(_hit_text("t", "d", "word " * 100), width=60).splitlines()[1:]
    assert len(lines) > 5
    assert all(line.startswith("    word") and len(line) <= 60 for line in lines)


def test_a_long_table_shows_every_row_with_numbers_to_the_right() -> None:
    rows = [[f"row {number}", f"{number:,}"] for number in range(500, 1500)]
    printed = _print(show.table("many", ["name", "count"], rows))
    assert printed.startswith("many") and printed.count("row ") == 1000
    assert "│ row 500  │   500 │" in printed and "│ row 1499 │ 1,499 │" in printed


def test_an_explanation_is_a_tree_of_its_parts() -> None:
    leaves = (Part("anywhere: 1x in 3 words", 0.5), Part("title: 1x in 1 words", 0.25))
    printed = _print(
        show.part_tree(Part("lexical", 1.0, (Part("owl", 0.75, leaves), Part("barn", 0.25))))
    )
    assert printed.splitlines() == [
        "  1.0000  lexical",
        "├──   0.7500  owl",
        "│   ├──   0.5000  anywhere: 1x in 3 words",
        "│   └──   0.2500  title: 1x in 1 words",
        "└──   0.2500  barn",
    ]


def test_nested_values_become_indented_lines() -> None:
    values = {"documents": 12345, "is": True, "fields": [], "bytes": {"a": 1, "b": ["x", "y"]}}
    assert list(show.key_values(values)) == [
        "documents: 12,345",
        "is: true",
        "fields: (empty)",
        "bytes:",
        "  a: 1",
        "  b: x, y",
    ]


def test_messages_and_progress_share_a_console() -> None:
    assert show.err() is show.err(), "or a message is written into the line of the bar"


def test_the_bar_shows_one_thing_at_a_time() -> None:
    from rich.progress import Progress

    with Progress(console=Console(file=io.StringIO()), disable=True) as progress:
        bar = show.Bar(progress)
        bar("reading documents", 5, 0)
        bar("reading documents", 7, 0)
        assert [(each.description, each.completed) for each in progress.tasks] == [
            ("reading documents", 7)
        ]
        bar("indexing words", 1, 10)
        assert [(each.description, each.total) for each in progress.tasks] == [
            ("indexing words", 10)
        ]


def test_a_hit_says_where_it_stands_and_where_else_it_is() -> None:
    passage = Passage("talk.pptx", "text", Span(0, 9), "Owls hunt", place="slide 3")
    hit = Hit("talk.pptx", 0.5, passage)
    shown = _print(show.hit_text(ShownHit(1, hit, "Owls", also=("a", "b", "c", "d"))))
    first, second = shown.splitlines()
    assert first == " 1. Owls  0.500  talk.pptx, slide 3"
    assert second.strip() == "the same in a, b, c and 1 more"
    assert _print(show.hit_text(ShownHit(1, hit))) == " 1. talk.pptx  0.500  slide 3\n"
