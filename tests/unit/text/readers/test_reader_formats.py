"""Files as offices, mail programs and notebooks write them, and where their passages stand."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from quoth import Engine
from quoth.records import Document, Located, Passage, Problem, SearchRequest, Span
from quoth.text.places import find_place
from quoth.text.readers.config import ReaderConfig
from quoth.text.readers.reading import read_documents, read_file

FILES = Path(__file__).parent / "files"


def _read(name: str) -> list[Document]:
    found = list(read_file(str(FILES / name), ReaderConfig(), shown=name))
    assert all(isinstance(each, Located) for each in found), found
    return [each.document for each in found if isinstance(each, Located)]


def _place(document: Document, words: str) -> str:
    text = document.fields["text"][0]
    start = text.index(words)
    passage = Passage(document.docid, "text", Span(start, start + len(words)), words)
    return find_place(document, passage)


def test_a_heading_of_windows_is_a_place_without_its_line_end() -> None:
    text = "# Aims\r\n\r\nWe count owls."
    document = Document("a.md", {"text": (text,)}, {"format": "md"})
    assert _place(document, "We count") == "§ Aims"


def test_odt_keeps_headings_and_tables() -> None:
    (document,) = _read("report.odt")
    assert document.title == "Owls of the north"
    assert document.fields["text"] == (
        "# Aims\n\nWe count barn owls at dusk.\n\n## Method\n\n"
        "Each farm was visited twice; tracks were noted.\n\nfarm | owls\nHill | 4",
    )
    assert _place(document, "We count") == "§ Aims"
    assert _place(document, "Hill | 4") == "§ Method"


@pytest.mark.parametrize("name", ["talk.pptx", "talk.odp"])
def test_slides_are_counted(name: str) -> None:
    (document,) = _read(name)
    assert document.metadata["slides"] == 3
    assert _place(document, "Owls of the north") == "slide 1"
    assert _place(document, "Each farm") == "slide 2"
    assert _place(document, "Ravens") == "slide 3"
    assert _place(document, document.fields["text"][0]) == "slides 1–3"


@pytest.mark.parametrize("name", ["table.xlsx", "table.ods"])
def test_workbooks_are_rows_below_the_names_of_sheets(name: str) -> None:
    (document,) = _read(name)
    assert document.fields["text"] == (
        "# table\n\nspecies | count | seen\nbarn owl | 4 | 2021-05-01\n"
        "raven, common | 2 | 2021-05-02",
    )
    assert _place(document, "raven") == "§ table"


def test_books_are_chapters_in_reading_order() -> None:
    (document,) = _read("book.epub")
    assert (document.title, document.metadata["author"]) == ("The Owl Book", "Ada Lovelace")
    assert document.fields["text"] == (
        "# Dusk\n\nThe barn owl hunts at dusk.\n\nIt is silent.\n\n# Dawn\n\nAt dawn it sleeps.",
    )
    assert _place(document, "At dawn") == "§ Dawn"
    assert "We count barn owls at dusk." in _read("report.epub")[0].fields["text"][0]


def test_pages_of_a_pdf_are_counted() -> None:
    (document,) = _read("talk.pdf")
    assert document.metadata["pages"] == 3
    assert _place(document, "Ravens") == "p. 3"


def test_a_message_has_sender_date_and_text() -> None:
    (document,) = _read("owls.eml")
    assert document.title == "Eulen im Mai – grüße"
    assert document.fields["text"] == ("We saw four owls.\nFrom the hill they flew.",)
    assert document.metadata == {
        "from": "Ada Müller <ada@example.org>",
        "to": "bo@example.org",
        "date": "2021-05-01T10:00:00+02:00",
        "attachments": ("visits.csv",),
        "path": "owls.eml",
        "format": "eml",
    }


def test_a_mailbox_is_one_document_per_message() -> None:
    first, second = _read("box.mbox")
    assert (first.docid, second.docid) == ("box.mbox#one@example.org", "box.mbox#two@example.org")
    assert first.fields["text"] == ("We saw four owls.\nFrom the hill they flew.",)
    assert second.fields["text"] == ("Ravens & hens",)


def test_a_message_in_html_keeps_its_paragraphs_and_headings(read_bytes) -> None:
    page = (
        "<html><head><style>p {color: red}</style></head><body><!-- hidden --><h2>Owls</h2>"
        "<p>Dear all</p><table><tr><td>we meet on <b>Thursday</b>, 22 May</td></tr></table>"
        "Yours,<br>Ada<div>Oslo</div></body></html>"
    )
    message = f"Subject: Next\nContent-Type: text/html\n\n{page}\n"
    (text,) = read_bytes("a.eml", message.encode()).document.fields["text"]
    assert text == "## Owls\n\nDear all\n\nwe meet on Thursday, 22 May\n\nYours,\nAda\nOslo"
    empty = read_bytes("b.eml", b"Subject: Next\nContent-Type: text/html\n\n\n").document
    assert "text" not in empty.fields, "a message without a body still has its subject"


def test_a_notebook_is_its_cells_without_output() -> None:
    (document,) = _read("counting.ipynb")
    assert document.title == "Counting owls"
    assert document.fields["text"] == (
        "# Counting owls\n\nWe load the visits.\n\n"
        "```python\nvisits = read('farms.csv')\nlen(visits)\n```",
    )


PYTHON = '''"""About owls."""
import os

@cached
def hunt(at):
    """Hunt at dusk."""
    def inner(): ...
    return at


class Owl:
    """A bird."""

    def sleep(self):
        return 1
'''


def test_python_is_read_function_by_function(read_bytes) -> None:  # type: ignore[no-untyped-def]
    found = {
        each.document.docid: each.document for each in read_bytes("a.py", PYTHON.encode()).located
    }
    assert set(found) == {"a.py", "a.py:hunt", "a.py:Owl", "a.py:Owl.sleep"}
    assert found["a.py:hunt"].fields["text"][0].startswith("@cached\ndef hunt(at):")
    assert "inner" in found["a.py:hunt"].fields["text"][0]
    assert found["a.py:Owl"].fields["text"] == ('class Owl:\n    """A bird."""',)
    assert found["a.py:Owl.sleep"].metadata["line"] == 14
    assert found["a.py"].fields["text"][0].strip() == '"""About owls."""\nimport os'
    assert _place(found["a.py:Owl.sleep"], "return 1") == "line 15"


def test_other_code_and_broken_python_are_read_whole(read_bytes) -> None:  # type: ignore[no-untyped-def]
    document = read_bytes("a.rs", b"// first\nfn hunt() {}\n").document
    assert document.metadata["format"] == "code" and _place(document, "fn hunt") == "line 2"
    assert read_bytes("b.py", b"def broken(:\n").document.fields["text"] == ("def broken(:\n",)


def test_tex_keeps_what_it_sets(read_bytes) -> None:  # type: ignore[no-untyped-def]
    source = rb"""\documentclass{article}\title{On \emph{Owls}}
\begin{document}
\section{Aims} % a comment
We \textbf{count} owls~\cite{a} at 50\% of farms.
\subsection*{Method}
Twice.
\end{document}"""
    document = read_bytes("a.tex", source).document
    assert document.fields["text"][0] == (
        "# Aims\n\nWe count owls at 50% of farms.\n\n## Method\n\nTwice."
    )
    assert _place(document, "Twice") == "§ Method"


@pytest.mark.parametrize(
    "name", ["report.odt", "talk.pptx", "table.xlsx", "book.epub", "talk.odp", "table.ods"]
)
def test_damaged_packages_are_problems(read_bytes, name: str) -> None:  # type: ignore[no-untyped-def]
    data = (FILES / name).read_bytes()
    suffix = Path(name).suffix
    for broken in (data[: len(data) // 2], b"no package", data[:60] + bytes(200) + data[260:]):
        for each in read_bytes(f"a{suffix}", broken).problems:
            assert str(each).startswith(f"a{suffix}: "), each
    assert "not a readable" in read_bytes(f"a{suffix}", b"no package").problem


@pytest.mark.parametrize("suffix", [".odt", ".pptx", ".xlsx", ".epub"])
def test_bombs_are_refused(read_bytes, suffix: str) -> None:  # type: ignore[no-untyped-def]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("content.xml", bytes(2_000_000))
    reading = read_bytes(f"a{suffix}", packed.getvalue(), max_file_bytes=1_000_000)
    assert "too large: 2,000,000 bytes unpacked" in reading.problem


def test_entities_are_not_looked_up(read_bytes, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "secret.txt").write_text("secret")
    content = f"""<!DOCTYPE x [<!ENTITY leak SYSTEM "file://{tmp_path}/secret.txt">]>
<office:document-content xmlns:office="urn:o" xmlns:text="urn:t"><office:body>
<text:p>Owls &leak; hunt.</text:p></office:body></office:document-content>"""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("content.xml", content)
    for each in read_bytes("a.odt", packed.getvalue()).located:
        assert "secret" not in str(each.document.fields)


def test_places_travel_into_hits_and_their_json(tmp_path: Path) -> None:
    from quoth.wire.writing import search_response

    problems: list[Problem] = []
    with Engine.open(tmp_path / "c.quoth") as engine:
        engine.add([str(FILES / "talk.pptx"), str(FILES / "report.odt")], report=problems.append)
        request = SearchRequest("ravens rare")
        found = engine.find(request)
        assert found.hits[0].hit.passage is not None
        assert found.hits[0].hit.passage.place == "slide 3"
        body = search_response(request, found)
        assert body.hits[0].passage is not None and body.hits[0].passage.place == "slide 3"
    assert problems == []


def test_headings_in_fenced_code_are_none() -> None:
    text = "# Real\n\n```\n# comment\n```\n\nHere.\n"
    document = Document("a.md", {"text": (text,)}, {"format": "md"})
    assert _place(document, "Here.") == "§ Real"
    assert _place(document, "# Real") == "§ Real"
    bare = Document("b.md", {"text": ("Nothing above.",)}, {"format": "md"})
    assert _place(bare, "Nothing") == ""


def test_every_new_format_of_a_folder_is_read() -> None:
    problems: list[Problem] = []
    read = read_documents([str(FILES)], config=ReaderConfig(), report=problems.append)
    assert len(list(read)) == 14 and problems == []
