"""How answers are shown: text with numbered markers, and below it where each quotation stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from quoth.answer.cite import (
    Piece,
    document_span,
    number_sources,
    sentence_span,
    with_markers,
)
from quoth.records import Answer, Citation, Passage
from quoth.text.display import make_safe, one_line

_MAX_DOCID = 80
_MAX_NEAREST = 240


def follow(pieces: Iterable[Piece], console: Console, *, before: str = "") -> None:
    """Show a text while it is written, quotations in colour; what was shown is taken away again."""
    if not console.is_terminal:
        return
    shown = Text.assemble((make_safe(before), "dim"))
    waiting = Text(f"{make_safe(before)} reading the passages …".strip(), style="dim")
    with Live(waiting, console=console, transient=True, auto_refresh=False) as live:
        live.refresh()
        for piece in pieces:
            live.update(shown)
            shown.append(make_safe(piece.text), style="yellow" if piece.sources else None)
            live.refresh()


def answer_text(answer: Answer, *, before: str = "") -> Group:
    """Lay out an answer with its citations; where there is none, the nearest passages.

    `before` is what it continues, if anything.
    """
    if answer.abstained:
        return Group(*_abstention_lines(answer))
    parts: list[RenderableType] = [Text.assemble((make_safe(before), "dim"), _marked(answer))]
    if not before:
        parts.append(Text(_confidence(answer), style="dim"))
    for passage, number in number_sources(answer).items():
        parts.append(Text())
        parts.append(_source_heading(passage, number))
        quotations = [each for each in answer.citations if each.passage == passage]
        parts += [Padding(_quotation(each), (0, 0, 0, 4), expand=False) for each in quotations]
    return Group(*parts)


def _marked(answer: Answer) -> Text:
    """Write an answer with markers, in bold; of one with a short answer that alone."""
    if answer.short is None:
        return Text(make_safe(with_markers(answer)), style="bold")
    shown, short = Text(make_safe(with_markers(answer))), make_safe(answer.short.text)
    start = shown.plain.find(short, answer.short.span.start)  # markers only move it on
    if start >= 0:
        shown.stylize("bold", start, start + len(short))
    return shown


def _confidence(answer: Answer) -> str:
    """Say how sure an answer is, and where the documents disagree."""
    told = f"{answer.confidence.capitalize()} (support {answer.support:.2f})."
    return f"{told} The documents disagree." if answer.disagrees else told


def _source_heading(passage: Passage, number: int) -> Text:
    return Text.assemble(
        (f"[{number}] ", "bold"),
        (one_line(passage.docid, max_chars=_MAX_DOCID), "bold cyan"),
        (f", {one_line(passage.place, max_chars=_MAX_DOCID)}" if passage.place else "", "cyan"),
        (f"  {one_line(passage.field, max_chars=_MAX_DOCID)}", "dim"),
    )


def _quotation(citation: Citation) -> Text:
    """Write the sentence of a quotation with the quoted words marked, and its place."""
    text, quoted, sentence = citation.passage.text, citation.passage_span, sentence_span(citation)
    place = document_span(citation)
    return Text.assemble(
        (f"{place.start}–{place.end}  ", "green"),
        _flat(text[sentence.start : quoted.start]),
        (_flat(text[quoted.start : quoted.end]), "bold yellow"),
        _flat(text[quoted.end : sentence.end]),
    )


def _abstention_lines(answer: Answer) -> Iterator[RenderableType]:
    yield Text(make_safe(answer.text), style="bold")
    if not answer.passages:
        yield Text("Nothing in the collection comes near the question.", style="dim")
        return
    yield Text(f"The nearest passages (support {answer.support:.2f}):", style="dim")
    for number, passage in enumerate(answer.passages, start=1):
        yield _source_heading(passage, number)
        yield Padding(
            Text(one_line(passage.text, max_chars=_MAX_NEAREST)), (0, 0, 0, 4), expand=False
        )


def _flat(text: str) -> str:
    return make_safe(text).replace("\n", " ").replace("\t", " ")
