"""The page in a real Chromium, against a stand-in with canned answers: searching and asking.

`pytest tests/end_to_end/test_page*.py --take-screenshots` writes the pictures in docs/ anew.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any, Protocol

import page_server
import pytest
from browsing import Browsing, needs_chromium
from page_server import PageServer

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
QUESTION = "How does an owl find a vole under the snow?"

pytestmark = needs_chromium
expect = playwright.expect


class Shoot(Protocol):
    """Takes a picture of the page, if pictures are wanted."""

    def __call__(self, page: Any, name: str) -> None: ...


# Searching ---------------------------------------------------------------------------------------


def test_typing_searches_and_marks_the_words(browsing: Browsing, shoot: Shoot) -> None:
    page = browsing.open()
    expect(page.locator("#search")).to_contain_text("1,204 documents in notes.quoth")
    page.locator("#query").press_sequentially("owl hunt night")
    expect(page.locator(".hit")).to_have_count(3)
    expect(page.locator("#status")).to_have_text("3 hits by hybrid search in 4.2 ms")
    first = page.locator(".hit").first
    expect(first.locator("mark")).to_have_text(["owl", "hunts", "night"])
    expect(first.locator(".finder")).to_have_text(["lexical #1", "dense #3", "generative #2"])
    expect(page).to_have_url(re.compile(r"/\?q=owl\+hunt\+night$"))
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
    expect(page.locator("#status")).to_have_text("10 hits by lexical search in 1.0 ms")
    page.click("text=More hits")
    expect(page.locator(".hit")).to_have_count(12)
    expect(page.locator(".hit .title").nth(10)).to_be_focused()
    expect(page.locator(".more")).to_have_count(0)
    expect(page.locator("#status")).to_have_text("12 hits by lexical search in 2.0 ms")


def test_an_explanation_is_a_picture(browsing: Browsing, shoot: Shoot) -> None:
    page = browsing.open("/?q=owl+hunt+night", height=1360)
    page.locator(".why-open").first.click()
    captions = page.locator(".why figcaption")
    expect(captions).to_have_text(
        [
            "How the searchers add up0.925",
            "Words (BM25)9.250",
            "Meaning (vectors)0.610",
            "Words with the most attention",
            "Generated identifiers2.400",
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
        ["#2 in the other list", "#3 in the other list", "#1 in the other list"]
    )
    expect(page.locator("#status")).to_have_text("3 documents in both lists, of 3 and 3.")
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
    expect(quotations).to_have_count(3)
    expect(page.locator(".answer strong")).to_have_text(page_server.TOKENS[1][0].split()[1])
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


# Hostile documents -------------------------------------------------------------------------------


def test_hostile_documents_are_shown_harmlessly(browsing: Browsing, shoot: Shoot) -> None:
    page = browsing.open("/?q=hostile")
    first = page.locator(".hit").first
    expect(first.locator(".title")).to_have_text("<script>window.attacked = 3</script> \ufffdeltit")
    expect(first.locator(".snippet")).to_contain_text("<img src=x onerror='window.attacked = 2'>")
    expect(first.locator(".snippet")).to_contain_text("\ufffdgnp.exe\ufffd \ufffdisolated\ufffd")
    expect(first.locator(".snippet")).to_contain_text("\ufffd[31mred \U0001f989")
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
    web = files("quoth.server").joinpath("web")
    index = web.joinpath("index.html").read_text("utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", index)
    named = set(re.findall(r'(?:src|href)="([^"?#]*)', index)) - {"", "./", "docs"}
    assert named == {
        f"assets/{name}" for name in ("icon.svg", "style.css", "theme.js", "script.js")
    }
    for entry in web.iterdir():
        if entry.name.endswith((".js", ".css")):
            text = entry.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
            dangerous = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|https?://|@import|url\("
            assert not re.search(dangerous, text), entry.name


def test_the_page_reads_as_many_documents_as_other_clients() -> None:
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    from quoth.server.schemas import PostedQuestion

    usual = PostedQuestion(question="owls?").k
    web = files("quoth.server") / "web"
    assert f'  k: "{usual}",' in (web / "state.js").read_text("utf-8")
    assert f'<option value="{usual}" selected>' in (web / "index.html").read_text("utf-8")


# The stand-in ------------------------------------------------------------------------------------


def test_the_stand_in_speaks_like_the_server() -> None:
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    from quoth.server.schemas import ExplainResponse
    from quoth.wire.schemas import AnswerResponse, SearchResponse

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
