"""Make questions of documentation by its structure, each with the passage that answers it.

    python -m benchmarks.technical.make         # after benchmarks.technical.fetch

| source | question | what answers |
|---|---|---|
| technical-faq | a heading that is a question | one of the first sentences under it |
| technical-heading | a heading, worded as a question or as it is | the same |
| technical-entry | what a term means, or how to do what is described | description, or term |
| technical-default | what the default of a term is | what the description says |
| technical-sentence | what a sentence answers by its form ("To …, use …") | a part of it |

Headings are cut out of most passages, so that finding the same words is not enough. Questions on
terms of other pages, and on terms that a passage names without describing them, have no answer
there. All questions of some programs are held out (`technical-held`).
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.technical.fetch import CACHE
from benchmarks.technical.pages import Entry, Page, Section, read_man, read_page, read_questions
from benchmarks.technical.wordings import (
    Asked,
    Chance,
    ask_default,
    ask_meaning,
    ask_means,
    ask_of_heading,
    ask_of_sentence,
    find_default,
    name_of_term,
    opening,
    wish,
)
from quoth.records import Span
from quoth.text.blocks import split_sentences
from quoth.text.passages import PassageConfig, cut_text

OUT = CACHE / "questions.jsonl.gz"
HELD_SOURCE = "technical-held"
HELD = frozenset(
    (
        *("tmux", "curl", "valgrind", "borgbackup", "xterm", "screen", "jq", "ufw", "flask"),
        *("nano", "lsof", "chrony", "weechat", "socat", "gettext"),
    )
)
PROGRAMS = {
    "postgresql-doc-15": "postgresql",
    "python-django-doc": "django",
    "python-sqlalchemy-doc": "sqlalchemy",
    "python-pandas-doc": "pandas",
    "python-flask-doc": "flask",
    "python-jinja2-doc": "jinja",
    "python-requests-doc": "requests",
    "python-setuptools-doc": "setuptools",
    "apache2-doc": "apache",
    "cmake-data": "cmake",
    "imagemagick-6-common": "imagemagick",
    "zsh-common": "zsh",
    "r-doc-html": "r",
    "groff-base": "groff",
    "exim4-base": "exim",
    "i3-wm": "i3",
    "debian-policy": "debian policy",
    "libcurl4": "libcurl",
    "dnsmasq-base": "dnsmasq",
}
MOST_PAGES = {"postgresql-doc-15": 260, "python-django-doc": 220, "apache2-doc": 100}
MOST_PAGES_OTHERWISE = 60
MOST_OF_PROGRAM = 3_000
NOT_ENGLISH = ("/_sources/", "/de/", "/ja/", "/fr/", "/es/", "/pt", "/ko/", "/tr/", "/zh", "/da/")
UNREAD = tuple(f"perl5{digit}" for digit in range(10))  # what changed in a release
DROPPED_HEADINGS = 0.65
MOST_SENTENCES = 5
LEAST_BODY = 10
FOREIGN_SOURCES, MOST_FOREIGN = ("technical-entry", "technical-default", HELD_SOURCE), 400
FOREIGN_SHARE, NAMED_SHARE, MEANS_SHARE, SENTENCE_SHARE = 0.2, 0.35, 0.6, 0.7


class Term(NamedTuple):
    """What a page describes, and what kind of thing it is."""

    name: str
    kind: str


class File(NamedTuple):
    """A file of documentation: a list of questions, a page of man, or one of HTML."""

    path: Path
    format: str
    program: str

    def read(self) -> Page | None:
        """Read its page, if it holds one."""
        if self.format == "man":
            return read_man(self.path)
        read = read_questions if self.format == "faq" else read_page
        return read(self.path, self.program)


@dataclass(frozen=True, slots=True)
class Made:
    """A question with its passage; without answers, one that the passage does not answer."""

    source: str
    question: str
    title: str
    passage: str
    answers: tuple[str, ...]


class AskedPage(NamedTuple):
    """What was asked of one page, and the terms that it describes."""

    program: str
    made: tuple[Made, ...]
    terms: tuple[Term, ...]


def main() -> None:
    """Read pages, ask, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    taken: Counter[str] = Counter()
    sources: Counter[str] = Counter()
    files = list(enumerate(files_to_read(CACHE)))
    began = time.perf_counter()
    with (
        multiprocessing.get_context("fork").Pool(given.processes) as pool,
        gzip.open(OUT, "wt", encoding="utf-8", compresslevel=5) as stream,
    ):
        foreign: list[Term] = []
        for number, asked in enumerate(pool.imap(ask_file, files, chunksize=8)):
            foreign = [*asked.terms, *foreign][:MOST_FOREIGN]
            chance = np.random.default_rng([1, number])
            for each in [*asked.made, *ask_foreign(asked, foreign, chance)]:
                taken[asked.program] += 1
                if taken[asked.program] <= MOST_OF_PROGRAM:
                    sources[each.source + ("" if each.answers else ", none")] += 1
                    stream.write(json.dumps(_row(each), ensure_ascii=False) + "\n")
            if number % 200 == 0:
                seconds = time.perf_counter() - began
                print(f"{number} of {len(files)} files, {seconds:.0f} s", flush=True)
    print(dict(sources), taken.most_common(60))


def ask_file(numbered: tuple[int, File]) -> AskedPage:
    """Make the questions of one file."""
    number, file = numbered
    page = file.read()
    if page is None:
        return AskedPage(file.program, (), ())
    maker = PageQuestions(page, np.random.default_rng([0, number]))
    return AskedPage(page.program, tuple(maker.ask()), tuple(maker.terms))


def ask_foreign(asked: AskedPage, foreign: Sequence[Term], chance: Chance) -> Iterator[Made]:
    """Ask about terms of other pages what a passage cannot answer."""
    for each in asked.made:
        if foreign and each.source in FOREIGN_SOURCES and chance.random() < FOREIGN_SHARE:
            term = foreign[int(chance.integers(len(foreign)))]
            if term.name not in each.passage:
                question = ask_meaning(term.name, term.kind, asked.program, chance)
                yield replace(each, question=question, answers=())


def _row(made: Made) -> dict[str, Any]:
    return asdict(made)


def files_to_read(cache: Path) -> Iterator[File]:
    """List the files: lists of questions, pages of man, pages of HTML."""
    documented = cache / "unpacked" / "usr/share/doc"
    for path in sorted(documented.glob("*/*")):
        if "faq" in path.name.lower() and path.suffix in ("", ".gz", ".txt") and path.is_file():
            yield File(path, "faq", PROGRAMS.get(path.parent.name, path.parent.name))
    for path in sorted((cache / "man").glob("*.txt")):
        if not path.name.startswith(UNREAD):
            yield File(path, "man", path.name.removesuffix(".txt").rpartition(".")[0])
    for folder in sorted(each for each in documented.iterdir() if each.is_dir()):
        program = PROGRAMS.get(folder.name, folder.name.removesuffix("-doc"))
        yield from (File(path, "html", program) for path in choose_pages(folder))


def choose_pages(folder: Path) -> list[Path]:
    """Choose some of a package's English pages, those with questions first."""
    found = [
        path
        for path in sorted(folder.rglob("*.html"))
        if not any(part in str(path) for part in NOT_ENGLISH)
        and not (path.suffixes[:-1] and path.suffixes[-2] not in (".en", ".faq"))
        and path.stem not in ("genindex", "search", "py-modindex")
        and path.is_file()
    ]
    drawn = np.random.default_rng(0).permutation(len(found)).tolist()
    ordered = sorted(drawn, key=lambda at: "faq" not in found[at].name.lower())
    return [found[at] for at in ordered[: MOST_PAGES.get(folder.name, MOST_PAGES_OTHERWISE)]]


class PageQuestions:
    """Asks about one page."""

    def __init__(self, page: Page, chance: Chance) -> None:
        self._page = page
        self._chance = chance
        self._spans = cut_text(page.text, PassageConfig())
        self._starts = [span.start for span in self._spans]
        self.terms: list[Term] = []

    def ask(self) -> Iterator[Made]:
        """Make all questions."""
        for section in self._page.sections:
            yield from self._of_section(section)
        for entry in self._page.entries:
            yield from self._of_entry(entry)
        for span in self._spans:
            yield from self._of_sentences(span)

    def _made(self, source: str, asked: Asked, passage: str) -> Made:
        is_held = self._page.program in HELD or self._page.program.split("-")[0] in HELD
        answers = tuple(each for each in asked.answers if each and each in passage)
        source = HELD_SOURCE if is_held else f"technical-{source}"
        return Made(source, asked.question, self._page.title, passage, answers)

    def _at(self, place: int) -> Span | None:
        """Return the passage that holds a place."""
        row = bisect_right(self._starts, place) - 1
        if row < 0 or place >= self._spans[row].end:
            return None
        return self._spans[row]

    def _text(self, span: Span) -> str:
        return self._page.text[span.start : span.end]

    def _of_section(self, section: Section) -> Iterator[Made]:
        body = self._text(section.body)
        begin = section.body.start + len(body) - len(body.lstrip())
        own = self._at(begin)
        if own is None or len(body.split()) < LEAST_BODY:
            return
        end = min(own.end, section.body.end)
        is_asked = section.heading.endswith("?")
        question = ask_of_heading(section.heading, self._page.program, self._chance)
        sentences = [
            self._page.text[begin + each.start : begin + each.end]
            for each in split_sentences(self._page.text[begin:end])
        ]
        answers = [opening(_unmark(each)) for each in sentences if len(each.split()) >= 3]
        if not question or not answers or not _is_prose(sentences[0]):
            return
        passage = self._text(own)
        shown = section.place.start >= own.start
        if shown and self._chance.random() < DROPPED_HEADINGS:
            cut = section.place.start - own.start, section.place.end - own.start
            passage = (passage[: cut[0]].rstrip(" ") + passage[cut[1] :]).strip()
        asked = Asked(question, tuple(answers[:MOST_SENTENCES]))
        made = self._made("faq" if is_asked else "heading", asked, passage)
        if made.answers:
            yield made

    def _of_entry(self, entry: Entry) -> Iterator[Made]:
        chance, program = self._chance, self._page.program
        term, described = self._text(entry.term).strip(), self._text(entry.description).strip()
        name, kind = name_of_term(term, chance)
        kind = "command" if entry.section == "NAME" else kind
        own = self._at(entry.description.start + _indent(self._text(entry.description)))
        if own is None or len(name) < 2 or len(described.split()) < 3 or len(term) > 120:
            return
        if not _is_prose(described) or entry.description.end - entry.description.start < 15:
            return
        self.terms.append(Term(name, kind))
        passage, first = self._text(own), split_sentences(described)[0]
        description = opening(described[first.start : first.end])
        if chance.random() < MEANS_SHARE and (wanted := wish(described)):
            question = ask_means(wanted, kind, program, chance)
            by_name = question.startswith(("which ", "what "))
            answers = (opening(term, 8),) if by_name else (opening(term, 8), description)
            yield from self._if_answered("entry", Asked(question, answers), passage)
        else:
            asked = Asked(ask_meaning(name, kind, program, chance), (description,))
            yield from self._if_answered("entry", asked, passage)
        if default := find_default(described):
            asked = Asked(ask_default(name, program, chance), (default,))
            own = self._at(entry.description.start + described.find(default))
            yield from self._if_answered(
                "default", asked, passage if own is None else self._text(own)
            )
        yield from self._unanswered(name, kind, own)

    def _if_answered(self, source: str, asked: Asked, passage: str) -> Iterator[Made]:
        made = self._made(source, asked, passage)
        if made.answers and len(made.question.split()) >= 2:
            yield made

    def _unanswered(self, name: str, kind: str, own: Span | None) -> Iterator[Made]:
        """Ask about a term where it is named and not described."""
        chance, program = self._chance, self._page.program
        if chance.random() < NAMED_SHARE and len(name) > 3:
            naming = [each for each in self._spans if each != own and name in self._text(each)]
            if naming:
                text = self._text(naming[int(chance.integers(len(naming)))])
                if not any(self._describes(name, each, text) for each in self._page.entries):
                    asked = ask_meaning(name, kind, program, chance)
                    yield self._made("entry", Asked(asked, ()), text)

    def _describes(self, name: str, entry: Entry, passage: str) -> bool:
        """Whether a passage holds an entry of this name."""
        term = self._text(entry.term)
        return name in term and self._text(entry.description)[:40] in passage

    def _of_sentences(self, span: Span) -> Iterator[Made]:
        passage = self._text(span)
        for each in split_sentences(passage):
            sentence = _unmark(passage[each.start : each.end])
            if 5 <= len(sentence.split()) <= 50 and self._chance.random() < SENTENCE_SHARE:
                for asked in ask_of_sentence(sentence, self._page.program, self._chance):
                    yield from self._if_answered("sentence", asked, passage)


def _unmark(sentence: str) -> str:
    return sentence.lstrip(" -*•~=_|\n\t")


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def _is_prose(text: str) -> bool:
    """Whether a text begins with words rather than code or a table."""
    words = text.split()[:8]
    return len(words) >= 3 and sum(word.strip(".,:;()'\"").isalpha() for word in words) >= 3


if __name__ == "__main__":
    main()
