"""How the page looks and is used: by keyboard, on a phone, in the dark; learning and stats."""

from __future__ import annotations

import re
from typing import Any, Protocol

import page_server
import pytest
from browsing import Browsing, needs_chromium
from page_server import PageServer

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
MODES = ("search", "ask", "compare", "learning", "stats")

pytestmark = needs_chromium
expect = playwright.expect


class Shoot(Protocol):
    """Takes a picture of the page, if pictures are wanted."""

    def __call__(self, page: Any, name: str) -> None: ...


# Keyboard, phone, colours, addresses -------------------------------------------------------------


def test_everything_by_keyboard(browsing: Browsing, shoot: Shoot) -> None:
    page = browsing.open()
    press = page.keyboard.press
    expect(page.locator("#query")).to_be_focused()
    page.keyboard.type("owl hunt")
    expect(page.locator(".hit")).to_have_count(3)
    press("ArrowDown")
    press("ArrowDown")
    expect(page.locator(".title").nth(1)).to_be_focused()
    press("Enter")
    expect(page.locator("#document-title")).to_have_text("Hearing in the dark")
    press("Escape")
    expect(page.locator(".title").nth(1)).to_be_focused()
    press("w")
    expect(page.locator(".hit").nth(1).locator(".attention")).to_be_visible()
    press("ArrowUp")
    press("ArrowUp")
    expect(page.locator("#query")).to_be_focused()
    press("Escape")
    press("?")
    expect(page.locator("#shortcuts")).to_be_visible()
    shoot(page, "shortcuts")
    press("Escape")
    press("f")
    expect(page.locator("#where")).to_be_focused()
    press("Escape")
    expect(page.locator("#query")).to_be_focused()
    press("Escape")
    press("c")
    expect(page.locator(".columns .hit")).to_have_count(6)
    press("Escape")
    press("l")
    expect(page.locator(".report")).to_be_visible()
    press("t")
    expect(page.locator(".cards")).to_be_visible()
    press("/")
    expect(page.locator("body")).to_have_attribute("data-mode", "stats")


@pytest.mark.parametrize("mode", MODES)
def test_everything_has_a_name_and_fits_a_phone(
    browsing: Browsing, mode: str, shoot: Shoot
) -> None:
    page = browsing.open(f"/?mode={mode}&q=owl+hunt+night", width=390, height=844)
    expect(page.locator(f"#{mode} h2, #{mode} h3").first).to_be_visible()
    if mode == "ask":
        page.locator(".quotation").nth(1).click()
        box = page.locator("#source").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 390
        assert 300 < box["y"] < 844 and box["y"] + box["height"] <= 844
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    if mode != "ask":  # test_page_served.py takes that one, of a real answer
        shoot(page, f"phone-{mode}")
    nameless = page.evaluate(
        """() => [...document.querySelectorAll("button, input, select, a, [role=button], svg")]
            .filter((each) => each.checkVisibility())
            .filter((each) => !(each.textContent.trim() || each.ariaLabel || each.labels?.length))
            .map((each) => each.outerHTML)"""
    )
    assert nameless == []


def test_a_long_title_leaves_the_buttons_beside_it_their_shape(
    browsing: Browsing, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = {"title": ["Owl " + "hoo" * 200], "text": ["An owl."]}
    monkeypatch.setitem(page_server.DOCUMENTS, "long", {"fields": fields, "metadata": {}})
    page = browsing.open("/?doc=long", width=360)
    expect(page.locator("#document-title")).to_contain_text("hoohoo")
    box = page.locator("#document [data-close]").bounding_box()
    assert box["width"] == box["height"] == 36


def test_colours_follow_the_system_and_the_switch(browsing: Browsing, shoot: Shoot) -> None:
    page = browsing.open("/?q=owl+hunt+night", dark=True)

    def is_dark() -> bool:
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        return all(int(each) < 60 for each in re.findall(r"\d+", colour))

    assert is_dark()
    page.locator(".why-open").first.click()
    expect(page.locator(".attention")).to_be_visible()
    shoot(page, "dark")
    page.click("#theme")
    assert not is_dark()
    page.reload()
    assert not is_dark()


def test_an_address_says_what_is_shown(browsing: Browsing) -> None:
    page = browsing.open("/?q=owl&searcher=dense&where=year+%3E+2000")
    expect(page.locator("#status")).to_contain_text("2 hits by dense search")
    expect(page.locator("#where")).to_have_value("year > 2000")
    page.locator(".modes a", has_text="Compare").click()
    expect(page.locator(".columns .hit")).to_have_count(4)
    expect(page).to_have_url(re.compile("mode=compare"))
    page.go_back()
    expect(page.locator("#search .hit")).to_have_count(2)
    page.goto(page.url.partition("?")[0] + "?mode=unknown&searcher=none")
    expect(page.locator("#searcher")).to_have_value("auto")


# Learning and stats ------------------------------------------------------------------------------


def test_the_learning_report_has_its_plots(browsing: Browsing, shoot: Shoot) -> None:
    page = browsing.open("/?mode=learning", height=1400)
    expect(page.locator(".verdict h2")).to_have_text("Search uses the learned model")
    plots = page.locator("svg.plot")
    expect(plots).to_have_count(4)
    expect(plots.first.locator("circle.after")).to_have_count(8)
    expect(plots.first.locator("circle.before")).to_have_count(7)
    expect(page.locator("blockquote").nth(1)).to_contain_text("<script>alert(1)</script>")
    shoot(page, "learning")


def test_no_report_says_how_to_get_one(failing: Browsing, server: PageServer) -> None:
    server.has_report = False
    page = failing.open("/?mode=learning")
    expect(page.locator("#learning h2")).to_have_text("Nothing learned yet")


def test_stats_show_where_the_time_goes(browsing: Browsing, shoot: Shoot) -> None:
    page = browsing.open("/?mode=stats")
    expect(page.locator("#stats tbody tr").first).to_have_text(
        re.compile(r"encode.*812.*6\.1 ms.*9\.4 ms.*17 ms", re.DOTALL)
    )
    expect(page.locator("#stats tbody tr")).to_have_count(4)
    shoot(page, "stats")
