"""Addresses: Back and Forward, links that show the same elsewhere, and a proxy's prefix."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Any

import page_server
import pytest
from browsing import Browsing, needs_chromium, serve_collection
from page_server import PageServer

from quoth.engine.engine import Engine
from quoth.records import Document

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = needs_chromium
expect = playwright.expect


def _count_entries(page: Any) -> int:
    return int(page.evaluate("history.length"))


def _submit(page: Any, text: str) -> None:
    page.fill("#query", text)
    page.press("#query", "Enter")


def _expect_address(page: Any, end: str) -> None:
    page.wait_for_function("end => location.href.endsWith(end)", arg=end)


# Queries -----------------------------------------------------------------------------------------


def test_typing_adds_nothing_and_a_submitted_query_one_entry(browsing: Browsing) -> None:
    page = browsing.open()
    before = _count_entries(page)
    for text in ("o", "owl", "owl h", "owl hunt"):
        page.fill("#query", text)
        _expect_address(page, f"/?q={text.replace(' ', '+')}")
    assert _count_entries(page) == before
    page.press("#query", "Enter")
    _expect_address(page, "/?q=owl+hunt")
    assert _count_entries(page) == before + 1
    page.press("#query", "Enter")  # the same again
    expect(page.locator("#search")).to_have_attribute("aria-busy", "false")
    assert _count_entries(page) == before + 1


def test_back_and_forward_walk_through_queries(browsing: Browsing) -> None:
    page = browsing.open()
    for text, marks in (("owl", "owl"), ("ravens", "Ravens"), ("mouse", "mouse")):
        _submit(page, text)
        expect(page.locator("mark").first).to_have_text(marks)
    page.go_back()
    expect(page.locator("#query")).to_have_value("ravens")
    expect(page.locator("mark").first).to_have_text("Ravens")
    page.go_back()
    expect(page.locator("mark").first).to_have_text("owl")
    _expect_address(page, "/?q=owl")
    page.go_back()
    expect(page.locator("#search h2")).to_have_text("What are you looking for?")
    page.go_forward()
    page.go_forward()
    expect(page.locator("mark").first).to_have_text("Ravens")


def test_what_is_typed_survives_a_reload_and_a_way_elsewhere(browsing: Browsing) -> None:
    page = browsing.open("/?q=ravens")
    expect(page.locator(".hit")).to_have_count(3)
    page.fill("#query", "owl")
    _expect_address(page, "/?q=owl")
    page.reload()
    expect(page.locator("mark").first).to_have_text("owl")
    page.locator(".modes a", has_text="Compare").click()
    expect(page.locator(".columns .hit")).to_have_count(6)
    page.go_back()
    expect(page.locator("#search mark").first).to_have_text("owl")
    page.go_back()
    expect(page.locator("#search mark").first).to_have_text("Ravens")


def test_searchers_and_filters_have_entries(browsing: Browsing) -> None:
    page = browsing.open("/?q=owl+hunt")
    page.select_option("#searcher", "dense")
    expect(page.locator("#status")).to_contain_text("3 hits by dense search")
    page.locator(".metadata", has_text="lang en").first.click()
    expect(page.locator("#where")).to_have_value('lang = "en"')
    page.go_back()
    expect(page.locator("#where")).to_have_value("")
    page.go_back()
    expect(page.locator("#searcher")).to_have_value("auto")
    expect(page.locator("#status")).to_contain_text("3 hits by hybrid search")


# Tabs and questions ------------------------------------------------------------------------------


def test_back_and_forward_walk_through_tabs(browsing: Browsing) -> None:
    page = browsing.open("/?q=owl+hunt")
    for mode in ("compare", "learning", "stats"):
        page.locator(f".modes a[data-mode={mode}]").click()
        expect(page.locator("body")).to_have_attribute("data-mode", mode)
    for mode in ("learning", "compare", "search"):
        page.go_back()
        expect(page.locator("body")).to_have_attribute("data-mode", mode)
        expect(page.locator(f"#{mode} h2").first).to_be_visible()
    page.go_forward()
    expect(page.locator(".columns .hit")).to_have_count(6)


def test_back_and_forward_walk_through_questions(browsing: Browsing, server: PageServer) -> None:
    page = browsing.open("/?mode=ask")
    _submit(page, "How does an owl hear?")
    expect(page.locator(".answer .quotation")).to_have_count(3)
    _submit(page, "What does nobody know?")
    expect(page.locator("#ask h2").first).to_have_text("No answer in these documents")
    asked = len(server.asked)
    page.go_back()
    expect(page.locator("#query")).to_have_value("How does an owl hear?")
    expect(page.locator(".answer .quotation")).to_have_count(3)
    page.go_forward()
    expect(page.locator("#ask h2").first).to_have_text("No answer in these documents")
    assert len(server.asked) == asked  # shown as it was, not asked again
    page.reload()
    page.go_back()
    expect(page.locator(".answer .quotation")).to_have_count(3)
    page.go_back()
    expect(page.locator("#ask h2")).to_have_text("Ask in your own words")


def test_a_query_is_not_asked_until_it_is_submitted(browsing: Browsing, server: PageServer) -> None:
    page = browsing.open("/?q=owl+hunt")
    page.locator(".modes a", has_text="Ask").click()
    expect(page.locator("#ask h2")).to_have_text("Ask in your own words")
    page.locator(".modes a", has_text="Stats").click()
    expect(page.locator(".cards")).to_be_visible()
    page.go_back()
    expect(page.locator("#ask h2")).to_have_text("Ask in your own words")
    assert "/answer" not in [path for path, _body in server.asked]


# Opened documents --------------------------------------------------------------------------------


def test_an_opened_document_has_an_address(browsing: Browsing) -> None:
    page = browsing.open("/?q=owl+hunt&searcher=dense")
    page.locator(".hit .title").first.click()
    title = page.locator("#document-title")
    expect(title).to_have_text("Hearing in the dark")
    expect(page).to_have_url(re.compile(r"q=owl\+hunt.*doc=birds%2Fhearing\.md"))
    address = page.url
    page.go_back()
    expect(page.locator("#document")).to_be_hidden()
    expect(page.locator("#search .hit")).to_have_count(3)
    page.go_forward()
    expect(title).to_have_text("Hearing in the dark")
    page.reload()
    expect(title).to_have_text("Hearing in the dark")
    expect(page.locator("#search .hit")).to_have_count(3)
    page.goto("about:blank")
    page.goto(address)  # as from a bookmark
    expect(title).to_have_text("Hearing in the dark")
    page.keyboard.press("Escape")
    expect(page.locator("#document")).to_be_hidden()
    _expect_address(page, "/?q=owl+hunt&searcher=dense")


def test_closing_a_document_steps_back_to_where_it_was_opened(
    browsing: Browsing, server: PageServer
) -> None:
    page = browsing.open("/?q=owl+hunt")
    page.locator(".why-open").first.click()
    expect(page.locator(".attention")).to_be_visible()
    asked = len(server.asked)
    for at in (0, 1, 2):
        page.locator(".hit .title").nth(at).click()
        expect(page.locator("#document")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#document")).to_be_hidden()
    _expect_address(page, "/?q=owl+hunt")
    expect(page.locator(".hit .title").nth(2)).to_be_focused()
    expect(page.locator(".attention")).to_be_visible()  # nothing was searched or drawn anew
    assert len(server.asked) == asked
    page.go_forward()
    expect(page.locator("#document-title")).to_have_text("What ravens know")


def test_the_query_a_document_was_opened_from_is_kept(browsing: Browsing) -> None:
    page = browsing.open()
    page.fill("#query", "ravens")
    expect(page.locator("mark").first).to_have_text("Ravens")
    page.locator(".hit .title").first.click()
    expect(page.locator("#document")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#document")).to_be_hidden()
    _submit(page, "owl")
    expect(page.locator("mark").first).to_have_text("owl")
    page.go_back()
    expect(page.locator("mark").first).to_have_text("Ravens")


def test_a_link_marks_what_was_quoted(browsing: Browsing) -> None:
    page = browsing.open("/?mode=ask&q=How?")
    page.locator(".sources .title").nth(1).click()
    marks = [page_server.TOKENS[3][0], page_server.TOKENS[5][0]]
    expect(page.locator("#document-body mark")).to_have_text(marks)
    expect(page).to_have_url(re.compile("quote="))
    address = page.url
    page.goto("about:blank")
    page.goto(address)
    expect(page.locator("#document-body mark")).to_have_text(marks)


@pytest.mark.parametrize(
    "place", ["passage=0:0-9", "passage=x", "quote=0:5-9:nowhere", "quote=0:7-7,9-1:body"]
)
def test_places_that_are_not_there_do_no_harm(browsing: Browsing, place: str) -> None:
    page = browsing.open(f"/?doc=birds/raven.md&{place}")
    expect(page.locator("#document-body .passage").nth(1)).to_have_text(page_server.RAVEN)
    assert page.locator("#document-body mark").count() == 0


def test_a_document_that_is_gone_says_so(failing: Browsing) -> None:
    page = failing.open("/?q=owl&doc=birds/dodo.md")
    expect(page.locator("#document .failed h2")).to_have_text("Not found")
    page.keyboard.press("Escape")
    _expect_address(page, "/?q=owl")


# Under a prefix ----------------------------------------------------------------------------------


def test_everything_works_under_a_prefix(browsing: Browsing, server: PageServer) -> None:
    server.prefix = "/notes"
    page = browsing.open("/notes/?q=owl+hunt")
    expect(page.locator(".hit")).to_have_count(3)
    page.locator(".why-open").first.click()
    expect(page.locator(".attention")).to_be_visible()
    page.locator(".hit .title").first.click()
    expect(page.locator("#document-title")).to_have_text("How the barn owl hunts")
    page.keyboard.press("Escape")
    for mode, shown in (
        ("ask", "h2"),
        ("compare", ".columns"),
        ("learning", ".report"),
        ("stats", ".cards"),
    ):
        page.locator(f".modes a[data-mode={mode}]").click()
        expect(page.locator(f"#{mode} {shown}").first).to_be_visible()
        _expect_address(page, f"/notes/?mode={mode}&q=owl+hunt")
    page.go_back()
    page.go_back()
    page.go_back()
    page.press("#query", "Enter")
    expect(page.locator(".answer .quotation")).to_have_count(3)
    page.fill("#query", "")
    page.locator(".modes a[data-mode=search]").click()
    _expect_address(page, "/notes/")
    page.click(".wordmark a")
    _expect_address(page, "/notes/")


def test_no_address_in_the_page_begins_with_a_slash() -> None:
    web = files("quoth.server").joinpath("web")
    index = web.joinpath("index.html").read_text("utf-8")
    assert not re.search(r'(?:src|href|action)="/', index)
    asking = re.compile(r"""(?:get|post|stream|fetch|import)\(?\s*["'`]/""")
    for entry in web.iterdir():
        if entry.name.endswith((".js", ".css")):
            assert not asking.search(entry.read_text("utf-8")), entry.name


def test_a_real_collection_offers_its_own_filters(tab: Any, tmp_path: Path) -> None:
    with Engine.open(tmp_path / "notes.quoth") as engine:
        engine.add_documents(
            Document(f"d{at}", {"name": ("Note",), "text": ("A barn owl.",)}, {"shelf": at})
            for at in range(3)
        )
        with serve_collection(engine) as address:
            browsing = Browsing(tab, address)
            page = browsing.open("/")
            expect(page.locator(".tips")).to_contain_text("name:owls")
            page.fill("#query", "owl")
            page.click("text=Filter")
            page.click(".example")
            expect(page.locator("#where")).to_have_value("shelf >= 1")
            expect(page.locator(".hit")).to_have_count(2)
            page.goto(f"{address}/?q=owl&where=shelf+%3E")
            expect(page.locator("#where-error pre")).to_contain_text("shelf >")
            browsing.close()
    assert all(each.startswith("Failed to load resource") for each in browsing.problems)
