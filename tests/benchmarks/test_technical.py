"""Questions made of documentation: where terms, headings and answers stand."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from benchmarks.manuals.fetch import MAN_PACKAGES, PAGES
from benchmarks.technical.fetch import PACKAGES, licences_of
from benchmarks.technical.make import AskedPage, Made, PageQuestions, Term, ask_foreign
from benchmarks.technical.pages import Page, read_man, read_page, read_questions
from benchmarks.technical.wordings import ask_of_sentence, name_of_term, say_otherwise, wish

MAN = """\
PV(1)                            User Commands

NAME
       pv - monitor the progress of data through a pipe

OPTIONS
       -L RATE, --rate-limit RATE
              Limits the transfer to a maximum of RATE bytes per second. The default is 0 bytes.

       -q     Do not show anything while data is being transferred to the next program.

SEE ALSO
       cat(1)
"""
HTML = """<html><head><title>Raven manual</title></head><body><div class="sidebar">menu</div>
<h2>5.2. Creating a nest</h2><p>Run <code>raven build</code> in an empty folder, which then holds
the nest. It takes a minute, unless the folder lies on a disk that is far away. To remove a nest,
use raven raze.</p>
<dl><dt>--loud</dt><dd>Prints what is done to the standard output.</dd></dl></body></html>"""
FAQ = """Frequently asked questions

1. How do I stop the raven?
~~~~~~~~~~~~~~~~~~~~~~~~~~~
  Send it the signal HUP, and it ends after the next message was said.

2. Why is it black?

  It was painted so in the first release, and nobody has changed that since then.
"""


def test_nothing_of_the_benchmark_is_learnt_from() -> None:
    asked_about = {*MAN_PACKAGES, *(package for package, *_rest in PAGES.values())}
    assert not asked_about & {*PACKAGES}
    assert len({*PACKAGES}) == len(PACKAGES)


def man_page(folder: Path) -> Page:
    path = folder / "pv.1.txt"
    path.write_text(MAN)
    page = read_man(path)
    assert page is not None
    return page


def test_a_page_of_man_has_its_name_and_options_as_entries(tmp_path: Path) -> None:
    page = man_page(tmp_path)
    found = {
        page.text[each.term.start : each.term.end]: page.text[
            each.description.start : each.description.end
        ]
        for each in page.entries
    }
    assert page.program == "pv"
    assert found["pv"] == "monitor the progress of data through a pipe"
    assert found["-q"].startswith("Do not show anything")
    assert found["-L RATE, --rate-limit RATE"].startswith("Limits the transfer")
    assert set(found) == {"pv", "-q", "-L RATE, --rate-limit RATE"}  # nothing of SEE ALSO


def test_a_page_of_html_has_text_entries_and_sections(tmp_path: Path) -> None:
    pytest.importorskip("lxml")
    path = tmp_path / "raven.html"
    path.write_text(HTML)
    page = read_page(path, "raven")
    assert page is not None and page.title == "Raven manual"
    assert "menu" not in page.text
    (entry,) = page.entries
    assert page.text[entry.term.start : entry.term.end].strip() == "--loud"
    (section,) = page.sections
    assert section.heading == "Creating a nest"
    assert page.text[section.body.start : section.body.end].strip().startswith("Run raven build")


def test_a_list_of_questions_is_read_with_its_answers(tmp_path: Path) -> None:
    path = tmp_path / "FAQ.gz"
    path.write_bytes(gzip.compress(FAQ.encode()))
    page = read_questions(path, "raven")
    assert page is not None
    assert [each.heading for each in page.sections] == [
        "How do I stop the raven?",
        "Why is it black?",
    ]
    made = list(PageQuestions(page, np.random.default_rng(0)).ask())
    asked = {each.question: each for each in made if each.source == "technical-faq"}
    answers = asked["How do I stop the raven?"].answers
    assert answers[0].startswith("Send it the signal HUP")


@pytest.mark.parametrize("seed", range(6))
def test_every_answer_stands_in_its_passage(tmp_path: Path, seed: int) -> None:
    made = list(PageQuestions(man_page(tmp_path), np.random.default_rng(seed)).ask())
    assert {"technical-entry", "technical-default"} <= {each.source for each in made}
    for each in made:
        assert all(answer in each.passage for answer in each.answers)
    (default,) = (each for each in made if each.source == "technical-default" and each.answers)
    assert default.answers == ("0 bytes",)


def test_terms_of_other_pages_have_no_answer() -> None:
    made = Made("technical-entry", "what is -q?", "", "-q  Be quiet.", ("Be quiet",))
    page = AskedPage("pv", (made,) * 40, ())
    terms = [Term("--loud", "option"), Term("-q", "option")]
    found = list(ask_foreign(page, terms, np.random.default_rng(0)))
    assert found
    assert all(not each.answers and "--loud" in each.question for each in found)


def test_wishes_are_said_in_other_words() -> None:
    chance = np.random.default_rng(0)
    wanted = wish("Removes all files of your directory.")
    assert wanted == "remove all files of my directory"
    said = {say_otherwise(wanted, chance) for _time in range(40)}
    assert "delete all files of my folder" in said
    assert wish("Removal of files is slow.") == ""


def test_a_sentence_of_some_form_is_asked_about() -> None:
    chance = np.random.default_rng(0)
    sentence = "To remove a nest, use raven raze."
    (asked,) = ask_of_sentence(sentence, "raven", chance)
    assert asked.answers == ("use raven raze",)
    assert list(ask_of_sentence("Ravens are black and like to talk.", "raven", chance)) == []


def test_words_that_name_nothing_are_no_terms() -> None:
    chance = np.random.default_rng(0)
    assert name_of_term("The following", chance) == ("", "")
    assert name_of_term("/etc/raven.conf", chance) == ("/etc/raven.conf", "file")


def test_licences_are_read_from_copyright(tmp_path: Path) -> None:
    path = tmp_path / "copyright"
    path.write_text("Files: *\nLicense: GPL-2+\n text\n\nFiles: x\nLicense: MIT\n")
    assert licences_of(path) == ["GPL-2+", "MIT"]
    assert licences_of(tmp_path / "none") == []
