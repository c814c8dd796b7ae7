"""How answers are shown."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace

from rich.console import Console

from quoth.answer.cite import Piece, sentence_span
from quoth.cli.answers import answer_text, follow
from quoth.records import Answer, Citation, Passage, Span
from quoth.vocabulary.dynamic import NO_ANSWER, Source

TEXT = "Owls hunt. A raven\nsaid [1] nothing. It flew."
PASSAGE = Passage("notes/\x1b[31mraven", "text", Span(40, 40 + len(TEXT)), TEXT)
QUOTED = Citation(Span(4, 20), PASSAGE, Span(11, 27))
ANSWER = Answer("The A raven\nsaid [1] did.", (QUOTED,), (PASSAGE,), support=0.9)


def show(answer: Answer, *, before: str = "") -> str:
    console = Console(file=io.StringIO(), width=100)
    console.print(answer_text(answer, before=before))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_an_answer_is_followed_by_its_source_with_place_and_sentence() -> None:
    assert TEXT[11:27] == ANSWER.text[4:20]
    shown = show(ANSWER)
    assert shown.startswith("The A raven\nsaid \\[1][1] did.\n")
    assert "[1] notes/�[31mraven  text" in shown
    assert "    51–67  A raven said [1] nothing.\n" in shown
    assert "\x1b" not in shown


def test_what_is_continued_stands_before() -> None:
    shown = show(ANSWER, before="Once")
    assert shown.startswith("OnceThe A raven") and "robably" not in shown


def test_an_answer_says_how_sure_it_is_and_where_documents_disagree() -> None:
    assert "\nProbably (support 0.90).\n" in show(ANSWER)
    doubtful = show(replace(ANSWER, support=0.45, disagrees=True))
    assert "\nNot sure (support 0.45). The documents disagree.\n" in doubtful


def test_silence_shows_the_nearest_passages() -> None:
    silent = Answer(NO_ANSWER, (), (PASSAGE,), support=0.125, abstained=True)
    shown = show(silent)
    assert (
        shown.startswith(NO_ANSWER) and "(support 0.12)" in shown and "Owls hunt. A raven" in shown
    )
    assert "Nothing in the collection" in show(Answer(NO_ANSWER, (), abstained=True))


def test_a_quotation_across_sentences_shows_them_all() -> None:
    across = Citation(Span(0, 16), PASSAGE, Span(5, 21))
    span = sentence_span(across)
    assert TEXT[span.start : span.end] == "Owls hunt. A raven\nsaid [1] nothing."


def test_a_terminal_shows_pieces_as_they_come_and_a_pipe_does_not() -> None:
    pieces = [Piece("An "), Piece("owl", (Source(0, Span(0, 3)),)), Piece("\x1b[2J hunts")]
    terminal = Console(file=io.StringIO(), force_terminal=True, width=80)
    follow(iter(pieces), terminal, before="Once:")
    assert isinstance(terminal.file, io.StringIO)
    assert "\x1b[2J" not in terminal.file.getvalue() and "hunts" in terminal.file.getvalue()
    pipe = Console(file=io.StringIO(), width=80)
    waiting = iter(pieces)
    follow(waiting, pipe)
    assert isinstance(pipe.file, io.StringIO)
    assert pipe.file.getvalue() == "" and next(waiting) == pieces[0]


def test_a_piece_is_on_the_terminal_before_the_next_is_written() -> None:
    file = io.StringIO()

    def written() -> Iterator[Piece]:
        yield Piece("An owl")
        assert "An owl" in file.getvalue()
        yield Piece(" hunts")
        assert "hunts" in file.getvalue()

    follow(written(), Console(file=file, force_terminal=True, width=80))


def test_a_terminal_says_what_goes_on_before_the_first_word() -> None:
    file = io.StringIO()

    def written() -> Iterator[Piece]:
        assert "reading the passages …" in file.getvalue()
        yield Piece("Owls")

    follow(written(), Console(file=file, force_terminal=True, width=80))
    assert "Owls" in file.getvalue()
