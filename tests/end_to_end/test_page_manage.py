"""The page changes a collection: adding, removing, jobs, several collections, citations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from browsing import Browsing, assert_accessible, needs_chromium, serve_writable
from page_server import PageServer

from quoth.engine.engine import Engine
from quoth.engine.models import can_encode
from quoth.records import Document

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = needs_chromium
expect = playwright.expect
JOB_MILLISECONDS = 600_000  # only a failure takes them
MODES = ("search", "ask", "compare", "learning", "manage", "stats")

OWL = Document(
    "birds/owl.md",
    {"title": ("Barn owl",), "text": ("The barn owl hunts at dusk, by ear alone.",)},
    {"author": "Ada Müller", "year": 2019, "url": "https://example.org/owl", "page": 12},
)
HEN = Document("hen", {"text": ("A hen sleeps in the barn at night.",)})


@contextmanager
def served(tab: Any, *engines: Engine) -> Iterator[Browsing]:
    """Serve collections and look at them; in the end nothing may have gone wrong."""
    with serve_writable(engines) as address:
        browsing = Browsing(tab, address)
        try:
            yield browsing
        finally:
            browsing.close()
        assert browsing.problems == []


@pytest.fixture
def notes(tmp_path: Path) -> Iterator[Engine]:
    with Engine.open(tmp_path / "notes.quoth") as engine:
        engine.add_documents([OWL, HEN])
        yield engine


DROP = """([name, text]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([text], name, {type: "text/plain"}));
    for (const kind of ["dragover", "drop"]) {
        const given = {bubbles: true, cancelable: true, dataTransfer: transfer};
        document.body.dispatchEvent(new DragEvent(kind, given));
    }
}"""


def test_files_are_added_and_what_is_skipped_is_told(
    tab: Any, notes: Engine, tmp_path: Path
) -> None:
    files = {
        "swift.md": b"# Swift\n\nSwifts sleep on the wing.",
        "rows.jsonl": b'{"_id": "r1", "text": "A raven watches."}\nno json\n',
        "tool.exe": b"MZ",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with served(tab, notes) as browsing:
        page = browsing.open("/?mode=manage")
        page.set_input_files("#files", [str(tmp_path / name) for name in files])
        expect(page.locator("#added")).to_have_text("2 added, 2 skipped")
        lines = page.locator("#uploads > li")
        expect(lines).to_have_count(3)
        expect(lines.filter(has_text="swift.md")).to_contain_text("1 added")
        expect(lines.filter(has_text="rows.jsonl")).to_contain_text("rows.jsonl:2: not valid JSON")
        expect(lines.filter(has_text="tool.exe")).to_contain_text("unknown format")
        expect(page.locator("#collection")).to_contain_text("4 documents")
        page.locator("[data-mode=search]").first.click()
        page.fill("#query", "swifts wing")
        expect(page.locator(".hit .title").first).to_have_text("Swift")
    assert notes.document("swift.md").metadata["path"] == "swift.md"


def test_files_are_dropped_anywhere(tab: Any, notes: Engine) -> None:
    with served(tab, notes) as browsing:
        page = browsing.open("/?q=owl")
        expect(page.locator("#manage-tab")).to_be_visible()
        page.evaluate(DROP, ["dropped.txt", "A heron stands in the reeds."])
        expect(page.locator("#uploads")).to_contain_text("dropped.txt")
        expect(page.locator("#added")).to_have_text("1 added")
    assert "heron" in notes.document("dropped.txt").fields["text"][0]


def test_a_document_is_removed_when_asked_twice(tab: Any, notes: Engine) -> None:
    with served(tab, notes) as browsing:
        page = browsing.open("/?q=hen+barn")
        page.locator(".title", has_text="hen").click()
        page.locator("#document-remove").click()
        expect(page.locator("#document-remove")).to_have_text("Remove it permanently? Press again")
        assert notes.document("hen") == HEN
        page.locator("#document-remove").click()
        expect(page.locator("#status")).to_contain_text("Removed hen.")
        expect(page.locator(".hit")).to_have_count(1)
        expect(page.locator("#collection")).to_contain_text("1 document ·")
    assert notes.docids() == (OWL.docid,)


@pytest.mark.skipif(not can_encode(), reason="vectors need the extra neural")
def test_vectors_are_made_while_the_page_watches(tab: Any, notes: Engine) -> None:
    with served(tab, notes) as browsing:
        page = browsing.open("/?mode=manage")
        expect(page.locator("#searcher option:disabled")).to_have_count(3)
        page.locator("[data-start=encode]").click()
        expect(page.locator("#job h3")).to_contain_text("Compute vectors: running")
        expect(page.locator("[data-start=learn]")).to_be_disabled()
        finished = page.locator("#job h3", has_text="Compute vectors: finished")
        expect(finished).to_be_visible(timeout=JOB_MILLISECONDS)
        expect(page.locator("#job p")).to_contain_text("vectors")
        expect(page.locator("#searcher option:disabled")).to_have_count(1)
        page.locator("[data-mode=search]").first.click()
        page.select_option("#searcher", "dense")
        page.fill("#query", "night bird of prey")
        expect(page.locator(".hit .title").first).to_have_text("Barn owl", timeout=JOB_MILLISECONDS)


def test_a_job_is_cancelled(tab: Any, notes: Engine) -> None:
    with served(tab, notes) as browsing:
        page = browsing.open("/?mode=manage")
        page.locator("[data-start=learn]").click()
        page.get_by_role("button", name="Cancel").click()
        over = page.locator("#job h3", has_text="Learn: ")
        expect(over).not_to_contain_text("running", timeout=JOB_MILLISECONDS)
        expect(page.locator("[data-start=learn]")).to_be_enabled()


def test_two_collections_and_a_switch(tab: Any, notes: Engine, tmp_path: Path) -> None:
    with Engine.open(tmp_path / "mail.quoth") as mail:
        mail.add_documents([Document("m1", {"text": ("An owl in the post.",)})])
        with served(tab, notes, mail) as browsing:
            page = browsing.open("/?q=owl")
            expect(page.locator(".hit .title")).to_have_text(["Barn owl"])
            expect(page.locator("#collections option")).to_have_text(["notes", "mail"])
            page.select_option("#collections", label="mail")
            expect(page.locator(".hit .title")).to_have_text(["m1"])
            assert page.url == f"{browsing.address}/c/mail/?q=owl"
            expect(page.locator("#collections")).to_have_value("../mail/")
            page.select_option("#collections", label="notes")
            expect(page.locator(".hit .title")).to_have_text(["Barn owl"])
            assert page.url == f"{browsing.address}/c/notes/?q=owl"


PLAIN = "Ada Müller (2019). Barn owl. p. 12. https://example.org/owl."
BIBTEX = """@misc{muller2019,
  title = {{Barn owl}},
  author = {Ada Müller},
  year = {2019},
  url = {https://example.org/owl},
  pages = {12}
}"""


def test_citations_are_copied(tab: Any, notes: Engine) -> None:
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    with served(tab, notes) as browsing:
        page = browsing.open("/?q=hunts")
        page.locator(".cite-open").first.click()
        texts = page.locator(".citation pre")
        expect(texts).to_have_count(3)
        expect(texts.nth(0)).to_have_text(PLAIN)
        assert texts.nth(2).text_content() == BIBTEX
        page.get_by_role("button", name="Copy as Markdown").click()
        expect(page.locator("#status")).to_have_text("Copied as Markdown.")
        copied = page.evaluate("() => navigator.clipboard.readText()")
        assert copied.startswith("> The barn owl hunts at dusk, by ear alone.\n>\n> — [Barn owl](<")
        page.fill("#query", "hen")
        expect(page.locator(".hit .title")).to_have_text(["hen"])
        page.locator(".cite-open").first.click()
        expect(page.locator(".citation pre")).to_have_count(2)  # nothing to make BibTeX of


def test_where_writes_are_refused_nothing_offers_them(
    browsing: Browsing, server: PageServer
) -> None:
    page = browsing.open("/?q=owl")
    expect(page.locator(".hit").first).to_be_visible()
    expect(page.locator("#manage-tab")).to_be_hidden()
    page.evaluate(DROP, ["dropped.txt", "text"])
    page.locator(".title").first.click()
    expect(page.locator("#document-body .origin")).to_be_visible()
    expect(page.locator("#document-remove")).to_be_hidden()
    assert "/files" not in [path for path, _body in server.asked]


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_axe_finds_nothing_serious(
    browsing: Browsing, server: PageServer, mode: str, dark: bool
) -> None:
    server.writes = True
    page = browsing.open(f"/?mode={mode}&q=owl+hunt+night", dark=dark)
    expect(page.locator("#manage-tab")).to_be_visible()
    expect(page.locator(f"#{mode} h2, #{mode} h3").first).to_be_visible()
    if mode == "search":
        page.locator(".why-open").first.click()
        page.locator(".cite-open").first.click()
        expect(page.locator(".citation").first).to_be_visible()
        expect(page.locator(".attention")).to_be_visible()
    assert_accessible(page)


def test_managing_fits_on_a_phone(
    browsing: Browsing, server: PageServer, shoot: Callable[[Any, str], None]
) -> None:
    server.writes = True
    for width, name in ((1100, "manage"), (360, "phone-manage")):
        page = browsing.open("/?mode=manage", width=width)
        expect(page.locator("#job progress")).to_be_visible()
        expect(page.locator("#manage-tab")).to_be_visible()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        shoot(page, name)


def test_a_citation_on_the_page(browsing: Browsing, shoot: Callable[[Any, str], None]) -> None:
    page = browsing.open("/?q=owl+hunt+night")
    page.locator(".cite-open").first.click()
    expect(page.locator(".citation").first).to_be_visible()
    shoot(page, "cite")
