"""What the page says when something is wrong: filters, keys, a busy or a broken server."""

from __future__ import annotations

import re
from typing import Any, Protocol
from urllib.parse import quote_plus

import page_server
import pytest
from browsing import Browsing, needs_chromium
from page_server import KEY, OLD_KEY, PageServer

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = needs_chromium
expect = playwright.expect


class Shoot(Protocol):
    """Takes a picture of the page, if pictures are wanted."""

    def __call__(self, page: Any, name: str) -> None: ...


# Filters -----------------------------------------------------------------------------------------


def test_filters_and_their_errors(failing: Browsing, shoot: Shoot) -> None:
    page = failing.open("/?q=owl+hunt")
    expect(page.locator(".hit")).to_have_count(3)
    page.click("text=Filter")
    expect(page.locator("#where")).to_be_focused()
    page.fill("#where", "year > (")
    expect(page.locator("#where-error p")).to_contain_text("column 8: found (, expected a value")
    expect(page.locator("#where")).to_have_attribute("aria-invalid", "true")
    page.fill("#where", "year > 2000")
    expect(page.locator(".hit")).to_have_count(2)
    expect(page.locator("#where-error")).to_be_empty()
    expect(page).to_have_url(re.compile(r"where=year\+%3E\+2000"))
    shoot(page, "filter")
    page.locator(".metadata", has_text="lang en").first.click()
    expect(page.locator("#where")).to_have_value('year > 2000 and lang = "en"')


@pytest.mark.parametrize("mode", ["search", "compare"])
@pytest.mark.parametrize(
    ("where", "column"), [("year > (", 7), ("名前 = 年", 5), ("\U0001f989 = 1", 0)]
)
def test_a_bad_filter_in_the_address_is_pointed_at(
    failing: Browsing, mode: str, where: str, column: int
) -> None:
    page = failing.open(f"/?mode={mode}&q=owl&where={quote_plus(where)}")
    pointed = page.locator("#where-error pre")
    expect(pointed).to_be_visible()
    assert pointed.evaluate("each => each.firstChild.data") == f"{where}\n"
    assert "monospace" in pointed.evaluate("each => getComputedStyle(each).fontFamily")
    places = pointed.evaluate(
        """(each, column) => {
            const text = each.firstChild;
            const before = [...text.data].slice(0, column).join("").length;
            const range = document.createRange();
            range.setStart(text, before);
            range.setEnd(text, before + 1);
            return [range, each.querySelector(".caret")].map((one) => {
                const { left, top } = one.getBoundingClientRect();
                return [left, top];
            });
        }""",
        column,
    )
    (wrong_left, wrong_top), (caret_left, caret_top) = places
    assert caret_left == pytest.approx(wrong_left, abs=1.5) and caret_top > wrong_top
    expect(page.locator(f"#{mode} h2")).to_have_text("Invalid filter")
    expect(page.locator(".skeleton")).to_have_count(0)
    page.fill("#where", "year > 2000")
    expect(page.locator(f"#{mode} .hit").first).to_be_visible()
    expect(page.locator("#where-error")).to_be_empty()


def test_examples_of_filters_are_those_of_the_collection(
    browsing: Browsing, server: PageServer
) -> None:
    page = browsing.open("/?q=owl+hunt")
    page.click("text=Filter")
    expect(page.locator(".example")).to_have_text(["year >= 2018", 'lang == "en"'])
    expect(page.locator("#where")).to_have_attribute("placeholder", 'year >= 2018 and lang == "en"')
    page.locator(".example").first.click()
    expect(page.locator("#where")).to_have_value("year >= 2018")
    server.filters = {}
    page = browsing.open("/?q=owl+hunt")
    expect(page.locator("#collection")).not_to_be_empty()
    page.click("text=Filter")
    expect(page.locator("#where-hint")).to_be_hidden()
    expect(page.locator("#where")).to_have_attribute("placeholder", "")


# When something is wrong -------------------------------------------------------------------------


def test_nothing_found_is_friendly(browsing: Browsing) -> None:
    page = browsing.open("/?q=nothing&where=year+%3E+2000")
    expect(page.locator("#search h2")).to_have_text("Nothing found")
    page.fill("#query", "owl")
    expect(page.locator(".hit")).to_have_count(2)
    page.fill("#query", "nothing")
    page.click("text=Search without the filter")
    expect(page.locator("#where")).to_have_value("")
    page.click("text=Ask it as a question")
    expect(page.locator("#query")).to_have_value("nothing")
    expect(page.locator("#submit")).to_be_visible()


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/?q=broken", "Server error"),
        ("/?q=busy", "The server is busy"),
        ("/?mode=compare&q=busy", "The server is busy"),
        ("/?mode=ask&q=broken", "Server error"),
        ("/?mode=ask&q=halfway", "That did not work"),
        ("/?q=often", "Too many requests"),
    ],
)
def test_failures_say_what_to_do(failing: Browsing, path: str, title: str, shoot: Shoot) -> None:
    page = failing.open(path)
    failed = page.locator(".failed").first
    expect(failed.locator("h2")).to_have_text(title)
    expect(failed).to_contain_text("request r-1")
    expect(failed.get_by_role("button", name="Try again")).to_be_visible()
    if path == "/?q=busy":
        shoot(page, "error")


@pytest.mark.parametrize(
    "path", ["/?q=busy", "/?mode=compare&q=often", "/?mode=ask&q=busy", "/?mode=ask&q=often"]
)
def test_too_many_requests_say_when_to_try_again(failing: Browsing, path: str) -> None:
    page = failing.open(path)
    failed = page.locator(".failed").first
    told = "64 requests wait already" if "busy" in path else "this key has asked 60 times"
    expect(failed).to_contain_text(told)
    expect(failed).to_contain_text("You can try again in 7 seconds.")


@pytest.mark.parametrize("mode", ["search", "ask", "compare", "learning", "stats"])
@pytest.mark.parametrize("how", ["cut off", "not JSON"])
def test_every_failed_load_ends_in_an_error(failing: Browsing, mode: str, how: str) -> None:
    page = failing.open()
    paths = re.compile("/(search|answer|report|stats)$")

    def fail(route: Any) -> None:
        route.abort() if how == "cut off" else route.fulfill(status=200, body="<html>")

    page.route(paths, fail)
    page.goto(f"{failing.address}/?mode={mode}&q=owl")
    expect(page.locator(f"#{mode} .failed").first).to_be_visible()
    expect(page.locator(f"#{mode} .failed h2").first).not_to_have_text("undefined")
    expect(page.locator(".skeleton")).to_have_count(0)
    expect(page.locator(f"#{mode}")).to_have_attribute("aria-busy", "false")
    page.unroute(paths)


def test_more_hits_can_be_tried_again(failing: Browsing, monkeypatch: pytest.MonkeyPatch) -> None:
    hits = [page_server.make_hit(at, "birds/raven.md") for at in range(1, 11)]

    def search(body: dict[str, Any]) -> dict[str, Any]:
        told = {"query": body["query"], "searcher": "lexical", "seconds": {}}
        found = hits[: 10 - body["offset"] // 2]
        return {**told, "offset": body["offset"], "k": body["k"], "hits": found}

    monkeypatch.setattr(page_server, "search", search)
    page = failing.open("/?q=raven")
    expect(page.locator(".hit")).to_have_count(10)
    page.route("**/search", lambda route: route.abort())
    page.click("text=More hits")
    expect(page.locator("#search > .failed")).to_be_visible()
    expect(page.locator("#status")).to_have_text("10 hits by lexical search")
    page.unroute("**/search")
    page.click("text=More hits")
    expect(page.locator("#status")).to_have_text("15 hits by lexical search")
    expect(page.locator("#search > .failed")).to_have_count(0)


def test_a_lost_server_is_found_again(failing: Browsing) -> None:
    page = failing.open()
    page.route("**/search", lambda route: route.abort())
    page.fill("#query", "owl")
    expect(page.locator(".failed h2")).to_have_text("No connection")
    page.unroute("**/search")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".hit")).to_have_count(3)


def test_a_key_is_asked_for_once_and_kept_to_the_tab(failing: Browsing, server: PageServer) -> None:
    server.wants_key = True
    page = failing.open("/?q=owl")
    expect(page.locator("#key-title")).to_be_visible()
    page.fill("#key-field", KEY)
    page.keyboard.press("Enter")
    expect(page.locator(".hit")).to_have_count(3)
    page.fill("#query", "raven")
    expect(page.locator("mark")).to_have_text(["Ravens"])
    assert KEY not in page.url
    assert page.evaluate("Object.values(localStorage).join()") == ""


def test_a_wrong_key_is_called_wrong_and_an_old_one_expired(
    failing: Browsing, server: PageServer
) -> None:
    server.wants_key = True
    page = failing.open("/?q=owl")
    title = page.locator("#key-title")
    expect(title).to_have_text("This server requires a key")
    page.fill("#key-field", "a-wrong-key")
    page.keyboard.press("Enter")
    expect(title).to_have_text("The server does not know this key")
    page.fill("#key-field", OLD_KEY)
    page.keyboard.press("Enter")
    expect(title).to_have_text("This key has expired")
    page.get_by_role("button", name="Not now").click()
    expect(page.locator(".failed h2")).to_have_text("This key has expired")
    expect(page.locator(".failed")).to_contain_text("this key expired on 1 May 2026")
    page.get_by_role("button", name="Try again").click()
    page.fill("#key-field", KEY)
    page.keyboard.press("Enter")
    expect(page.locator(".hit")).to_have_count(3)


def test_without_a_key_one_is_asked_for(failing: Browsing, server: PageServer) -> None:
    server.wants_key = True
    page = failing.open("/?q=owl")
    page.get_by_role("button", name="Not now").click()
    expect(page.locator(".failed h2")).to_have_text("A key is required")


def test_a_key_that_is_asked_for_again_is_a_wrong_one(failing: Browsing) -> None:
    """As a server says it that does not tell missing keys from wrong ones."""
    page = failing.open()
    refusal = {"error": {"kind": "KeyRequired", "message": "a key is needed", "request_id": "r-1"}}
    page.route("**/search", lambda route: route.fulfill(status=401, json=refusal))
    page.fill("#query", "owl")
    page.fill("#key-field", "some-key")
    page.keyboard.press("Enter")
    expect(page.locator("#key-title")).to_have_text("The server does not know this key")
    page.unroute("**/search")
