"""The page in a real Chromium, against a stand-in with canned answers.

`pytest tests/end_to_end/test_page.py --take-screenshots` writes the pictures in docs/ anew.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Protocol

import page_server
import pytest
from browsing import CHROMIUM, Browsing, open_tab, take_picture
from page_server import KEY, PageServer, serve_page

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
MODES = ("search", "ask", "compare", "learning", "stats")
QUESTION = "How does an owl find a vole under the snow?"

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not there")
expect = playwright.expect


class Shoot(Protocol):
    """Takes a picture of the page, if pictures are wanted."""

    def __call__(self, page: Any, name: str) -> None: ...


@pytest.fixture(scope="module")
def tab() -> Iterator[Any]:
    with open_tab() as opened:
        yield opened


@pytest.fixture
def server() -> Iterator[PageServer]:
    with serve_page() as served:
        yield served


@pytest.fixture
def browsing(tab: Any, server: PageServer) -> Iterator[Browsing]:
    """Pages that must do nothing wrong: no console error, nothing blocked, nothing from outside."""
    opened = Browsing(tab, server.url)
    yield opened
    opened.close()
    assert opened.problems == []


@pytest.fixture
def failing(tab: Any, server: PageServer) -> Iterator[Browsing]:
    """Pages whose requests fail: Chromium notes that in the console, and only that is allowed."""
    opened = Browsing(tab, server.url)
    yield opened
    opened.close()
    assert all(each.startswith("Failed to load resource") for each in opened.problems)


@pytest.fixture
def shoot(request: pytest.FixtureRequest) -> Shoot:
    wanted = request.config.getoption("--take-screenshots", default=False)
    return take_picture if wanted else lambda page, name: None


# Searching ---------------------------------------------------------------------------------------


def test_typing_searches_and_marks_the_words(browsing: Browsing, shoot: Shoot) -> None:
    page = browsing.open()
    expect(page.locator("#search")).to_contain_text("1,204 documents in notes.quoth")
    page.locator("#query").press_sequentially("owl hunt night")
    expect(page.locator(".hit")).to_have_count(3)
    expect(page.locator("#status")).to_have_text("3 hits by hybrid search in 4.2 ms")
    assert page.locator(".hit").first.locator("mark").all_text_contents() == [
        "owl",
        "hunts",
        "night",
    ]
    assert page.locator(".hit").first.locator(".finder").all_text_contents() == [
        "lexical #1",
        "dense #3",
        "generative #2",
    ]
    assert page.url.endswith("/?q=owl+hunt+night")
    shoot(page, "search")


def test_the_latest_query_wins(browsing: Browsing, server: PageServer) -> None:
    page = browsing.open()
    server.gate.clear()
    with page.expect_event("requestfailed") as given_up:
        page.fill("#query", "held owl")
        expect(page.locator("#search")).to_have_attribute("aria-busy", "true")
        page.fill("#query", "hunt")
        expect(page.locator("mark")).to_have_text(["hunts"])
    assert given_up.value.post_data_json["query"] == "held owl"
    server.gate.set()
    assert page.locator("mark").all_text_contents() == ["hunts"]


def test_more_hits_follow_on_demand(
    browsing: Browsing, server: PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = {f"note-{at}": page_server.DOCUMENTS["birds/raven.md"] for at in range(12)}
    every = [page_server.make_hit(1, "birds/raven.md") | {"docid": docid} for docid in documents]

    def search(body: dict[str, Any]) -> dict[str, Any]:
        hits = every[body["offset"] : body["offset"] + body["k"]]
        told = {"query": body["query"], "searcher": "lexical", "seconds": {"search": 0.001}}
        return {**told, "offset": body["offset"], "k": body["k"], "hits": hits}

    monkeypatch.setattr(page_server, "search", search)
    page = browsing.open("/?q=raven")
    page.click("text=More hits")
    expect(page.locator(".hit")).to_have_count(12)
    expect(page.locator(".hit .title").nth(10)).to_be_focused()
    expect(page.locator(".more")).to_have_count(0)


def test_filters_and_their_errors(failing: Browsing, shoot: Shoot) -> None:
    page = failing.open("/?q=owl+hunt")
    expect(page.locator(".hit")).to_have_count(3)
    page.click("text=Filter")
    expect(page.locator("#where")).to_be_focused()
    page.fill("#where", "year > (")
    expect(page.locator("#where-error")).to_have_text("year > (: expected a value at character 8")
    expect(page.locator("#where")).to_have_attribute("aria-invalid", "true")
    page.fill("#where", "year > 2000")
    expect(page.locator(".hit")).to_have_count(2)
    expect(page.locator("#where-error")).to_be_empty()
    assert "where=year+%3E+2000" in page.url
    shoot(page, "filter")
    page.locator(".metadata", has_text="lang en").first.click()
    expect(page.locator("#where")).to_have_value('year > 2000 and lang = "en"')


def test_an_explanation_is_a_picture(browsing: Browsing, shoot: Shoot) -> None:
    page = browsing.open("/?q=owl+hunt+night", height=1360)
    page.locator(".why-open").first.click()
    captions = page.locator(".why figcaption")
    expect(captions).to_have_text(
        [
            "How the searchers add up0.925",
            "Its words, by BM259.250",
            "Its meaning, by vectors0.610",
            "Words the encoder looked at",
            "The names the model gave it2.400",
        ]
    )
    bars = page.locator(".bars").nth(1).locator(".bar")
    filled = [
        bars.nth(at).evaluate("bar => [...bar.children].map(each => each.clientWidth)")
        for at in range(3)
    ]
    whole = bars.first.evaluate("bar => bar.clientWidth")
    title, anywhere = filled[0]
    assert title + anywhere == pytest.approx(whole, abs=2)
    assert title / whole == pytest.approx(3.5 / 5.75, abs=0.01)
    assert filled[2][0] / whole == pytest.approx(1.0 / 5.75, abs=0.01)
    expect(page.locator(".phrase")).to_have_text(["barn owl", "hunts", "by night"])
    expect(page.locator(".word").first).to_have_text("owl52 %")
    page.locator(".hit").first.scroll_into_view_if_needed()
    shoot(page, "explanation")


def test_two_searchers_side_by_side(browsing: Browsing, shoot: Shoot) -> None:
    page = browsing.open("/?mode=compare&q=owl+hunt&searcher=lexical&other=dense")
    columns = page.locator(".columns > section")
    expect(columns.nth(0).locator(".title").first).to_have_text("How the barn owl hunts")
    expect(columns.nth(1).locator(".title").first).to_have_text("Hearing in the dark")
    expect(columns.nth(1).locator(".beside")).to_have_text(
        ["other side #2", "other side #3", "other side #1"]
    )
    expect(page.locator("#status")).to_have_text("3 documents on both sides, of 3 and 3.")
    shoot(page, "compare")


# Asking ------------------------------------------------------------------------------------------


def test_an_answer_streams_and_quotations_open(
    browsing: Browsing, server: PageServer, shoot: Shoot
) -> None:
    page = browsing.open("/?mode=ask")
    server.gate.clear()
    page.fill("#query", QUESTION)
    page.press("#query", "Enter")
    writing = page.locator(".answer.writing")
    expect(writing).to_have_text(re.compile(r"^By ear: its heart-shaped face .* under the snow$"))
    expect(page.locator("#submit")).to_have_text("Stop")
    server.gate.set()
    expect(page.locator("#status")).to_have_text("Answered with 3 quotations in 1.8 s.")
    quotations = page.locator(".answer .quotation")
    assert [each.get_attribute("data-source") for each in quotations.all()] == ["0", "1", "1"]
    quotations.nth(1).hover()
    expect(page.locator("#source-title")).to_have_text("[2] Hearing in the dark")
    expect(page.locator("#source mark")).to_have_text("ears sit at different heights")
    expect(page.locator("#source .span")).to_have_text("characters 9–38")
    shoot(page, "ask-several")
    quotations.nth(0).focus()
    expect(page.locator("#source mark")).to_have_text(page_server.TOKENS[1][0])
    page.keyboard.press("Tab")
    expect(page.locator("#source mark")).to_have_text(page_server.TOKENS[3][0])
    expect(quotations.nth(1)).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(page.locator("#source mark")).to_have_count(0)
    page.keyboard.press("Enter")
    expect(page.locator("#source mark")).to_have_text(page_server.TOKENS[3][0])
    page.locator(".sources .title").first.click()
    expect(page.locator("#document-body mark")).to_have_text(page_server.TOKENS[1][0])


def test_offsets_count_characters(browsing: Browsing) -> None:
    page = browsing.open("/?mode=ask&q=\U0001f989?")
    expect(page.locator(".answer .quotation").first).to_have_text(
        f"{page_server.TOKENS[1][0]}, source 1"
    )


def test_a_sentence_in_pieces_is_shown_once_with_each_marked(browsing: Browsing) -> None:
    page = browsing.open("/?mode=ask&q=in+pieces?")
    quotations = page.locator(".answer .quotation")
    expect(quotations).to_have_count(3)
    for at, (text, _passage) in enumerate(page_server.PIECES[:5:2]):
        quotations.nth(at).hover()
        expect(page.locator("#source mark")).to_have_text(text)
    expect(page.locator(".sources .snippet")).to_have_count(1)
    expect(page.locator(".sources .snippet")).to_have_text(page_server.HEARING.split(". ")[1])
    marks = ["A sound from below", "thirty millionths of a second", ", and that is enough"]
    expect(page.locator(".sources mark")).to_have_text(marks)
    page.locator(".sources .title").click()
    expect(page.locator("#document-body mark")).to_have_text(marks)


def test_writing_can_be_stopped(browsing: Browsing, server: PageServer) -> None:
    server.gate.clear()
    page = browsing.open(f"/?mode=ask&q={QUESTION}")
    expect(page.locator(".answer.writing")).to_contain_text("By ear")
    page.keyboard.press("Escape")
    expect(page.locator("#status")).to_have_text("Stopped.")
    expect(page.locator(".answer")).to_contain_text("By ear")
    expect(page.locator("#submit")).to_have_text("Ask")


def test_no_answer_is_said_kindly(browsing: Browsing) -> None:
    page = browsing.open("/?mode=ask&q=What+does+nobody+know?")
    expect(page.locator("#ask h2")).to_have_text(
        ["No answer in these documents", "The nearest passages"]
    )
    expect(page.locator("#source")).to_be_hidden()


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
        ("/?q=broken", "Something broke in the server"),
        ("/?q=busy", "Very busy just now"),
        ("/?mode=compare&q=busy", "Very busy just now"),
        ("/?mode=ask&q=broken", "Something broke in the server"),
        ("/?mode=ask&q=halfway", "That did not work"),
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


# Hostile documents -------------------------------------------------------------------------------


def test_hostile_documents_are_shown_harmlessly(browsing: Browsing, shoot: Shoot) -> None:
    page = browsing.open("/?q=hostile")
    first = page.locator(".hit").first
    expect(first.locator(".title")).to_have_text("<script>window.attacked = 3</script> \ufffdeltit")
    expect(first.locator(".snippet")).to_contain_text("<img src=x onerror='window.attacked = 2'>")
    expect(first.locator(".snippet")).to_contain_text("\ufffdgnp.exe\ufffd \ufffdisolated\ufffd")
    first.locator(".title").click()
    expect(page.locator("#document-body .origin")).to_have_text('<b onclick="x">&amp;../hostile')
    shoot(page, "hostile")
    page.keyboard.press("Escape")
    page.locator(".metadata").first.click()
    expect(page.locator("#where")).to_have_value(
        r'`<i>key</i>` = "\"><script>window.attacked = 4</script>"'
    )
    assert page.evaluate("window.attacked") is None
    assert page.locator("main script, main img, main i:not(.bar i), dialog script").count() == 0


def test_a_megabyte_is_shown_in_parts(browsing: Browsing) -> None:
    page = browsing.open("/?q=hostile")
    long = page.locator(".hit").nth(1)
    assert len(long.inner_text()) < 1000
    long.locator(".title").click()
    body = page.locator("#document-body")
    expect(body.locator("button")).to_have_text(
        f"{len(page_server.LONG) - 20_000:,} characters after"
    )
    assert len(body.inner_text()) < 30_000
    body.locator("button").click()
    expect(body.locator("button")).to_have_text(
        f"{len(page_server.LONG) - 40_000:,} characters after"
    )


def test_the_page_holds_nothing_inline_and_reads_no_markup() -> None:
    web = files("quoth.app").joinpath("web")
    index = web.joinpath("index.html").read_text("utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", index)
    named = set(re.findall(r'(?:src|href)="(/[^"?]*)', index)) - {"/", "/docs"}
    assert named == {
        f"/assets/{name}" for name in ("icon.svg", "style.css", "theme.js", "script.js")
    }
    for entry in web.iterdir():
        if entry.name.endswith((".js", ".css")):
            text = entry.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
            dangerous = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|https?://|@import|url\("
            assert not re.search(dangerous, text), entry.name


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
    assert "mode=compare" in page.url
    page.go_back()
    expect(page.locator("#search .hit")).to_have_count(2)
    page.goto(page.url.partition("?")[0] + "?mode=unknown&searcher=none")
    expect(page.locator("#searcher")).to_have_value("auto")


# Learning and stats ------------------------------------------------------------------------------


def test_the_learning_report_has_its_plots(browsing: Browsing, shoot: Shoot) -> None:
    page = browsing.open("/?mode=learning", height=1400)
    expect(page.locator(".verdict h2")).to_have_text("Search uses what was learnt")
    plots = page.locator("svg.plot")
    expect(plots).to_have_count(4)
    assert plots.first.locator("circle.after").count() == 8
    assert plots.first.locator("circle.before").count() == 7
    expect(page.locator("blockquote").nth(1)).to_contain_text("<script>alert(1)</script>")
    shoot(page, "learning")


def test_no_report_says_how_to_get_one(failing: Browsing, server: PageServer) -> None:
    server.has_report = False
    page = failing.open("/?mode=learning")
    expect(page.locator("#learning h2")).to_have_text("Nothing learnt yet")


def test_stats_show_where_the_time_goes(browsing: Browsing, shoot: Shoot) -> None:
    page = browsing.open("/?mode=stats")
    expect(page.locator("#stats tbody tr").first).to_have_text(
        re.compile(r"encode.*812.*6\.1 ms.*9\.4 ms.*17 ms", re.DOTALL)
    )
    expect(page.locator("#stats tbody tr")).to_have_count(4)
    shoot(page, "stats")


# The stand-in ------------------------------------------------------------------------------------


def test_the_stand_in_speaks_like_the_server() -> None:
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    from quoth.app.server_bodies import AnswerResponse, ExplainResponse, SearchResponse

    asked = {"query": "hostile owl", "k": 10, "offset": 0, "searcher": "auto", "where": []}
    told = {"query": "owl", "docids": ["birds/barn-owl.md"], "searcher": "dense"}
    for model, canned in (
        (SearchResponse, page_server.search(asked)),
        (ExplainResponse, page_server.explain(told)),
        (AnswerResponse, page_server.answer(QUESTION)),
    ):
        made = model.model_validate(canned)
        assert (
            made.model_dump(exclude_defaults=True).keys()
            <= canned.keys()
            <= made.model_dump().keys()
        )
