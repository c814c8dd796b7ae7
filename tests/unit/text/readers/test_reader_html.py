"""Web pages."""

from __future__ import annotations

import pytest

from quoth.records import Located
from quoth.text.readers.html import read_html, read_visible
from quoth.text.readers.outcomes import Whole

SENTENCE = "This is a sentence of the article, and it is long enough to count as content. "
PAGE = f"""<!doctype html><html><head><title> A
 Title </title><style>p {{color: red}}</style></head><body>
<nav><a href="/">Home</a> <a href="/x">Menu</a></nav>
<article><h1>Heading</h1><p>{SENTENCE * 5}</p>
<table><tr><td>cell one</td><td>cell two</td></tr></table></article>
<script>alert("no")</script><footer>imprint</footer></body></html>"""


def test_main_content(read_bytes):
    document = read_bytes("a.html", PAGE.encode()).document
    [text] = document.fields["text"]
    assert document.fields["title"] == ("A Title",)
    assert SENTENCE.strip() in text and "cell one" in text
    assert "Menu" not in text and "alert" not in text and "color" not in text
    assert document.metadata == {"path": "a.html", "format": "html"}


def test_headings_and_lists_of_a_short_page_are_kept(read_bytes):
    page = """<title>Borrowing rules</title><body><nav><a href="/">Home</a></nav>
<h1>Borrowing rules</h1><p>Adults may borrow up to twelve items at once.</p>
<h2>Renewals</h2><p>A loan can be renewed twice, unless someone else has reserved the item.</p>
<h2>Fees</h2><table><tr><th>what</th><th>fee</th></tr><tr><td>Lost card</td><td>£2.50</td></tr>
<tr><td>Day late</td><td>£0.20</td></tr></table>
<ul><li>Children under 16 pay no overdue fees.</li><li>Students pay half.</li></ul>"""
    [text] = read_bytes("a.html", page.encode()).document.fields["text"]
    wanted = ("twelve items", "Renewals", "renewed twice", "Fees", "Lost card")
    assert [each for each in wanted if each not in text] == []
    assert "Home" not in text
    assert "\n## Renewals\n" in f"\n{text}\n"
    assert "Children under 16 pay no overdue fees." in text and "Students pay half." in text


def test_title_from_heading(read_bytes):
    page = f"<h1>The <b>Heading</b></h1><p>{SENTENCE}</p>"
    assert read_bytes("a.htm", page.encode()).document.fields["title"] == ("The Heading",)


def _read_here(page: bytes) -> tuple[str, ...]:
    """Read a page in this process, where its extractor can be replaced."""
    (found,) = read_html(Whole("a.html", page, "utf-8", 1_000))
    assert isinstance(found, Located)
    return found.document.fields["text"]


def test_all_visible_text_where_there_is_no_main_content(monkeypatch):
    monkeypatch.setattr("trafilatura.extract", lambda *_, **__: None)
    page = b"<title>t</title><p>one</p><p>two <b>bold</b></p><script>no</script><style>no</style>"
    assert _read_here(page) == ("one\n\ntwo bold",)


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("<div>owls</div><div>hens</div>", "owls\nhens"),
        ("<div>owls</div><div><br></div><div>hens<br></div>ravens", "owls\n\nhens\nravens"),
        ("owls<br>\n<br>\nhens<br />ravens", "owls\n\nhens\nravens"),
        ("<ul><li>owls</li> <li>hens</li></ul>ravens", "owls\nhens\n\nravens"),
        ("<p>barn <b>owls</b>, hens</p>\n\n\n<p>ravens</p>", "barn owls, hens\n\nravens"),
        ("<!-- owls --><style>hens</style>", ""),
        ("", ""),
    ],
)
def test_visible_text_has_the_lines_of_the_page(page, shown):
    assert read_visible(page) == shown


def test_a_stumbling_extractor_is_no_loss(monkeypatch):
    def stumble(*_: object, **__: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("trafilatura.extract", stumble)
    assert _read_here(b"<p>one</p>") == ("one",)


@pytest.mark.parametrize("page", [b"<!-- nothing -->", b"<script>x</script>", b"<p> </p>", b"\n"])
def test_no_text(read_bytes, page):
    problem = read_bytes("a.html", page).problem
    assert problem.startswith("a.html: ") and "no text" in problem


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ('<meta charset="iso-8859-1">', "cp1252"),
        ('<meta http-equiv="Content-Type" content="text/html; charset=shift_jis">', "shift_jis"),
        ('<?xml version="1.0" encoding="koi8-r"?>', "koi8-r"),
        ('<meta charset="utf-16">', "utf-8"),
        ('<meta charset="no-such-thing">', "utf-8"),
        ('<meta charset="hex">', "utf-8"),
        ('<meta charset="latin-1">', "utf-16"),
    ],
)
def test_charset(read_bytes, head, encoding):
    word = {"cp1252": "“café”", "shift_jis": "日本語", "koi8-r": "слово"}.get(encoding, "é日")
    page = f"<html><head>{head}</head><body><p>{word} {SENTENCE}</p></body></html>"
    assert word in read_bytes("a.html", page.encode(encoding)).document.fields["text"][0]


def test_holes_of_windows_1252(read_bytes):
    assert read_bytes("a.html", b"<meta charset=latin-1><p>caf\xe9 \x81</p>").document


def test_control_characters_do_not_spoil_a_page(read_bytes):
    text = read_bytes("a.html", b"<p>one\x00 \x0b \x01two</p>").document.fields["text"][0]
    assert text.split() == ["one", "two"]
