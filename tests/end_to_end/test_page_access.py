"""That the page can be read: contrast, headings in order, and the tab that is shown in sight."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from browsing import Browsing, needs_chromium
from page_server import PageServer

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
MODES = ("search", "ask", "compare", "learning", "manage", "stats")
LEAST_CONTRAST = 4.5  # WCAG 2.2, success criterion 1.4.3

pytestmark = needs_chromium
expect = playwright.expect

CONTRASTS = """root => {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = 1;
    const paper = canvas.getContext("2d", { willReadFrequently: true });
    const paint = (colour, opacity) => {
        paper.globalAlpha = opacity;
        paper.fillStyle = colour;
        paper.fillRect(0, 0, 1, 1);
        return [...paper.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = (colour) => {
        const [red, green, blue] = colour.map((each) => {
            const share = each / 255;
            return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
    };
    const measure = (element) => {
        const above = [];
        for (let each = element; each; each = each.parentElement) above.unshift(each);
        let opacity = 1;
        let below = paint("white", 1);
        for (const each of above) {
            opacity *= Number(getComputedStyle(each).opacity);
            below = paint(getComputedStyle(each).backgroundColor, opacity);
        }
        const [dark, bright] = [below, paint(getComputedStyle(element).color, opacity)]
            .map(light)
            .sort((one, other) => one - other);
        return (bright + 0.05) / (dark + 0.05);
    };
    const found = [];
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const element = texts.currentNode.parentElement;
        if (!texts.currentNode.data.trim() || !element.checkVisibility()) continue;
        found.push([texts.currentNode.data, measure(element)]);
    }
    return found;
}"""

HEADINGS = """() => [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")]
    .filter((each) => each.checkVisibility())
    .map((each) => Number(each.tagName[1]))"""


@pytest.fixture(autouse=True)
def _with_every_tab(server: PageServer) -> None:
    server.writes = True


def _assert_readable(place: Any, *, least_texts: int) -> None:
    found = place.evaluate(CONTRASTS)
    assert len(found) >= least_texts
    assert [(text, ratio) for text, ratio in found if ratio < LEAST_CONTRAST] == []


@pytest.mark.parametrize("dark", [False, True])
def test_explanations_have_contrast(browsing: Browsing, dark: bool) -> None:
    page = browsing.open("/?q=owl+hunt+night", dark=dark)
    page.locator(".why-open").first.click()
    expect(page.locator(".attention")).to_be_visible()
    _assert_readable(page.locator(".why").first, least_texts=40)


@pytest.mark.parametrize("dark", [False, True])
def test_a_failed_explanation_has_contrast(failing: Browsing, dark: bool) -> None:
    page = failing.open("/?q=owl", dark=dark)
    page.route("**/explain", lambda route: route.abort())
    page.locator(".why-open").first.click()
    expect(page.locator(".why .failed h4")).to_be_visible()
    _assert_readable(page.locator(".why").first, least_texts=3)
    _assert_headings_in_order(page)
    page.unroute("**/explain")


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_every_tab_has_contrast(browsing: Browsing, mode: str, dark: bool) -> None:
    page = browsing.open(f"/?mode={mode}&q=owl+hunt+night", dark=dark)
    expect(page.locator(f"#{mode} h2, #{mode} h3").first).to_be_visible()
    _assert_readable(page.locator("body"), least_texts=20)


def _assert_headings_in_order(page: Any) -> None:
    levels = page.evaluate(HEADINGS)
    assert levels[0] == 1 and levels.count(1) == 1
    steps = [after - before for before, after in pairwise(levels)]
    assert max(steps, default=0) <= 1, levels


@pytest.mark.parametrize("mode", MODES)
def test_headings_leave_no_level_out(browsing: Browsing, mode: str) -> None:
    page = browsing.open(f"/?mode={mode}")
    expect(page.locator(f"#{mode} h2").first).to_be_visible()
    _assert_headings_in_order(page)
    page = browsing.open(f"/?mode={mode}&q=owl+hunt+night")
    expect(page.locator(f"#{mode} h2").first).to_be_visible()
    if mode in ("search", "compare"):
        page.locator(".why-open").first.click()
        expect(page.locator(".why figure").first).to_be_visible()
    _assert_headings_in_order(page)


def test_headings_of_a_document_and_of_no_hits_are_in_order(browsing: Browsing) -> None:
    page = browsing.open("/?q=owl&doc=birds/raven.md")
    expect(page.locator("#document h3").first).to_be_visible()
    expect(page.locator(".hit")).to_have_count(3)
    _assert_headings_in_order(page)
    page = browsing.open("/?q=nothing")
    expect(page.locator("#search h2")).to_be_visible()
    _assert_headings_in_order(page)


@pytest.mark.parametrize("letters", ["100%", "160%"])
@pytest.mark.parametrize("mode", MODES)
def test_the_tab_that_is_shown_is_in_sight(
    browsing: Browsing, server: PageServer, mode: str, letters: str
) -> None:
    """Also where letters are larger, so that the tabs do not fit."""
    page = browsing.open("/", width=360, height=740)
    page.evaluate("letters => { document.documentElement.style.fontSize = letters }", letters)
    page.locator(f".modes a[data-mode={mode}]").evaluate("link => link.click()")
    _assert_in_sight(page, mode)
    if letters == "100%":
        page = browsing.open(f"/?mode={mode}", width=360, height=740)
        _assert_in_sight(page, mode)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def _assert_in_sight(page: Any, mode: str) -> None:
    link = page.locator(".modes a[aria-current]")
    expect(link).to_have_attribute("data-mode", mode)
    bar, tab = page.locator(".modes").bounding_box(), link.bounding_box()
    assert bar["x"] - 0.5 <= tab["x"]
    assert tab["x"] + tab["width"] <= bar["x"] + bar["width"] + 0.5 <= 361
