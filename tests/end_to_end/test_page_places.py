"""Where hits and citations stand: places, other places of the same, and misspelt words.

In a real Chromium, against a stand-in with canned answers and against a real server.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browsing import Browsing, assert_accessible, needs_chromium, serve_collection
from page_server import PageServer

from quoth.engine.engine import Engine
from quoth.records import Document

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
QUESTION = "How does an owl find a vole under the snow?"

pytestmark = needs_chromium
expect = playwright.expect


# Against the stand-in ----------------------------------------------------------------------------


def test_a_place_opens_the_document_at_the_words(browsing: Browsing) -> None:
    page = browsing.open("/?q=owl+degree", height=500)
    hit = page.locator(".hit").nth(1)
    expect(hit.locator(".origin")).to_have_text("birds/hearing.md · p. 12")
    hit.get_by_role("button", name="p. 12, open the document there").click()
    expect(page.locator("#document-title")).to_have_text("Hearing in the dark")
    marks = page.locator("#document-body mark")
    expect(marks).to_have_text(["owl", "degree"])
    expect(marks.first).to_be_in_viewport()
    expect(page).to_have_url(re.compile(r"quote=0%3A3-6%2C"))
    page.keyboard.press("Escape")
    expect(page.locator(".hit .place").nth(1)).to_be_focused()
    third = page.locator(".hit").nth(2)
    expect(third.locator(".origin")).to_have_text("birds/raven.md · body")  # no place is known


def test_the_same_elsewhere_is_named_and_opens(
    browsing: Browsing, server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = browsing.open("/?q=owl")
    also = page.locator(".also")
    expect(also).to_have_text(["Also in talks/hearing.md, mail/2018/hearing.md"])
    opened = re.compile(r"documents\?docid=mail%2F2018%2Fhearing\.md$")
    with page.expect_request(opened):
        also.get_by_role("button", name="mail/2018/hearing.md").press("Enter")
    expect(page.locator("#document")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(r"/\?q=owl$"))  # the history has stepped back
    browsing.problems.clear()  # the stand-in has no such document, which Chromium notes

    import page_server

    many = [f"copies/{at}.md" for at in range(5)]
    monkeypatch.setitem(page_server.DOCUMENTS["birds/hearing.md"], "also", many)
    page = browsing.open("/?q=owl")
    expect(also).to_have_text(["Also in copies/0.md, copies/1.md, copies/2.md and 2 more places"])
    also.get_by_role("button", name="2 more places").press("Enter")
    expect(also).to_have_text([f"Also in {', '.join(many)}"])
    expect(also.get_by_role("button", name="copies/3.md")).to_be_focused()


def test_a_picture_of_places(browsing: Browsing, shoot: Callable[[Any, str], None]) -> None:
    page = browsing.open("/?q=owll+hunt+night")
    expect(page.locator(".meant")).to_be_visible()
    expect(page.locator(".place")).to_have_count(2)
    expect(page.locator(".also")).to_have_count(1)
    shoot(page, "places")


@pytest.mark.parametrize("mode", ["search", "compare"])
def test_a_misspelt_word_is_corrected_by_a_link(browsing: Browsing, mode: str) -> None:
    page = browsing.open(f"/?mode={mode}&q=owll+hunt&where=year+>+2000")
    meant = page.locator(".view:not([hidden]) .meant")
    expect(meant).to_have_text("Did you mean owl hunt?")
    link = meant.get_by_role("link", name="owl hunt")
    assert "q=owl+hunt" in link.get_attribute("href")
    link.click()
    expect(meant).to_have_count(0)
    expect(page.locator("#query")).to_have_value("owl hunt")
    expect(page.locator("#where")).to_have_value("year > 2000")
    expect(page).to_have_url(re.compile(r"[?&]q=owl\+hunt&"))
    page.go_back()
    expect(meant).to_have_text("Did you mean owl hunt?")


def test_a_misspelt_question_is_asked_anew_by_a_link(browsing: Browsing) -> None:
    page = browsing.open("/?mode=ask&q=where+does+the+owll+hunt")
    meant = page.locator("#ask .meant")
    expect(meant).to_have_text("Did you mean where does the owl hunt?")
    expect(page.locator("#ask .answer")).to_be_visible()
    meant.get_by_role("link").click()
    expect(page.locator("#query")).to_have_value("where does the owl hunt")
    expect(page.locator("#ask .answer")).to_be_visible()
    expect(meant).to_have_count(0)
    page.go_back()
    expect(meant).to_have_text("Did you mean where does the owl hunt?")


def test_a_correction_is_taken_by_keyboard_also_where_nothing_is_found(browsing: Browsing) -> None:
    page = browsing.open()
    page.keyboard.type("nothing owll")
    expect(page.locator("#search h2")).to_have_text("Nothing found")
    expect(page.locator(".meant")).to_have_text("Did you mean nothing owl?")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".correction")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.locator("#query")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#query")).to_have_value("nothing owl")
    expect(page.locator("#query")).to_be_focused()
    expect(page.locator(".meant")).to_have_count(0)
    page.fill("#query", "owll hunt")
    expect(page.locator(".hit")).to_have_count(3)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".hit .title").first).to_be_focused()


def test_citations_say_where_they_stand(browsing: Browsing, server: PageServer) -> None:
    page = browsing.open(f"/?mode=ask&q={QUESTION}")
    sources = page.locator(".sources li")
    expect(sources.locator(".origin")).to_have_text(
        ["birds/barn-owl.md · § By ear", "birds/hearing.md · p. 12"]
    )
    page.locator(".quotation").nth(1).click()
    expect(page.locator("#source .origin")).to_contain_text("birds/hearing.md · p. 12characters")
    page.locator("#source .place").click()
    marks = page.locator("#document-body mark")
    expect(marks).to_have_text(["ears sit at different heights"])
    page.keyboard.press("Escape")
    sources.nth(1).locator(".place").click()
    expect(marks).to_have_text(
        ["ears sit at different heights", "enough to place a mouse to within a degree"]
    )


def test_the_nearest_passages_have_places_too(browsing: Browsing) -> None:
    page = browsing.open("/?mode=ask&q=nobody knows")
    expect(page.locator(".sources .origin")).to_have_text(
        ["birds/barn-owl.md · § By ear", "birds/hearing.md · p. 12"]
    )


def test_a_place_is_part_of_a_citation(browsing: Browsing) -> None:
    page = browsing.open("/?q=owl")
    page.locator(".hit").nth(1).locator(".cite-open").click()
    plain, markdown, bibtex = page.locator(".citation pre").all_text_contents()
    assert plain == "Hearing in the dark (2018). p. 12. birds/hearing.md."
    assert ", p. 12, `birds/hearing.md`" in markdown
    assert "pages = {12}" in bibtex
    page.locator(".hit").first.locator(".cite-open").click()
    first = page.locator(".hit").first.locator(".citation pre").all_text_contents()
    assert "§ By ear" in first[0] and "note = {§ By ear}" in first[2]


def test_places_cannot_attack(browsing: Browsing) -> None:
    page = browsing.open("/?q=hostile")
    expect(page.locator(".hit .place")).to_have_text(
        ["<script>window.attacked = 5</script> �ecalp"]
    )
    expect(page.locator(".also button").first).to_contain_text("<img src=x")
    assert page.evaluate("window.attacked") is None


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize(
    "path", ["/?q=owll", "/?mode=compare&q=owll+hunt", f"/?mode=ask&q={QUESTION}"]
)
def test_it_is_accessible(browsing: Browsing, path: str, dark: bool) -> None:
    page = browsing.open(path, dark=dark)
    expect(page.locator(".place").first).to_be_visible()
    assert_accessible(page)


# Against a real server ---------------------------------------------------------------------------


def _pages(seed: int) -> str:
    """Forty pages of a report; the twelfth tells of an osprey."""
    chance = random.Random(seed)
    words = [f"word{number}" for number in range(300)]
    pages = [" ".join(chance.choices(words, k=120)) + "." for _page in range(40)]
    pages[11] += " An osprey hovers above the lake."
    return "\n\n\f".join(pages)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A report in two places, one with an address; notes by lines; gives the address."""
    folder = tmp_path_factory.mktemp("places")
    lines = "\n".join(f"Line {line} of a log." for line in range(1, 60)) + "\nA heron wades."
    with Engine.open(folder / "notes.quoth") as engine:
        engine.add_documents(
            [
                Document(
                    "reports/birds.pdf",
                    {"title": ("Birds of the lake",), "text": (_pages(1),)},
                    {"format": "pdf", "url": "https://example.org/birds.pdf#old"},
                ),
                Document(
                    "backup/birds.pdf",
                    {"title": ("Birds of the lake",), "text": (_pages(1),)},
                    {"format": "pdf"},
                ),
                Document("log.txt", {"text": (lines,)}, {"format": "txt"}),
                Document(
                    "lies.txt",
                    {"text": ("A kingfisher.",)},
                    {"format": "pdf", "url": "javascript:window.attacked = 1"},
                ),
            ]
        )
        with serve_collection(engine) as address:
            yield address


def test_a_page_of_a_pdf_is_shown_and_opened(tab: Any, reports: str) -> None:
    browsing = Browsing(tab, reports)
    page = browsing.open("/?q=osprey")
    expect(page.locator(".hit")).to_have_count(1)
    hit = page.locator(".hit")
    best, other = hit.get_attribute("data-docid"), hit.locator(".also button").text_content()
    assert {best, other} == {"reports/birds.pdf", "backup/birds.pdf"}
    expect(hit.locator(".place")).to_have_text("p. 12")
    hit.locator(".place").click()
    mark = page.locator("#document-body mark")
    expect(mark).to_have_text("osprey")
    expect(mark).to_be_in_viewport()
    page.keyboard.press("Escape")
    hit.locator(".also button").click()
    expect(page.locator("#document-body .origin")).to_have_text(other)
    browsing.close()
    assert browsing.problems == []


def test_a_pdf_on_the_web_opens_at_its_page(tab: Any, reports: str) -> None:
    browsing = Browsing(tab, reports)
    page = browsing.open("/?q=osprey&where=url+exists")
    link = page.get_by_role("link", name="PDF at this page")
    expect(link).to_have_attribute("href", "https://example.org/birds.pdf#page=12")
    expect(link).to_have_attribute("rel", "noopener noreferrer")
    page = browsing.open("/?q=kingfisher")
    expect(page.locator(".place")).to_have_text("p. 1")
    expect(page.locator(".outside")).to_have_count(0)
    browsing.close()
    assert browsing.problems == []


def test_lines_and_misspelt_words_of_a_real_collection(tab: Any, reports: str) -> None:
    browsing = Browsing(tab, reports)
    page = browsing.open("/?q=hereon")
    expect(page.locator("#search h2")).to_have_text("Nothing found")
    page.get_by_role("link", name="heron").click()
    expect(page.locator(".hit .origin")).to_have_text("log.txt · line 60")
    expect(page.locator(".hit mark")).to_have_text("heron")
    expect(page.locator(".meant")).to_have_count(0)
    browsing.close()
    assert browsing.problems == []
