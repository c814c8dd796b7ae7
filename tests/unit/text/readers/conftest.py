"""Reading in tests: what came out, what was reported, and files made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from quoth.records import Document, Located, Problem
from quoth.text.readers.config import ReaderConfig
from quoth.text.readers.reading import read_documents


@dataclass
class Reading:
    """Everything that one call of the readers gave."""

    located: list[Located] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def documents(self) -> list[Document]:
        return [located.document for located in self.located]

    @property
    def docids(self) -> list[str]:
        return [document.docid for document in self.documents]

    @property
    def places(self) -> list[str]:
        """Where the problems are."""
        return [str(problem.place) for problem in self.problems]

    @property
    def document(self) -> Document:
        """The only document, with no problem beside it."""
        assert self.problems == []
        [document] = self.documents
        return document

    @property
    def problem(self) -> str:
        """The only problem, with no document beside it."""
        assert self.located == []
        [problem] = self.problems
        return str(problem)


Read = Callable[..., Reading]


def read_sources(*sources: str, stdin: bytes = b"", **settings: Any) -> Reading:
    """Read sources to the end."""
    reading = Reading()
    reading.located.extend(
        read_documents(
            sources,
            config=ReaderConfig(**settings),
            report=reading.problems.append,
            standard_input=BytesIO(stdin),
        )
    )
    return reading


@pytest.fixture
def read() -> Read:
    """Read sources by name."""
    return read_sources


@pytest.fixture
def read_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Read:
    """Write bytes as a file of a given name and read that file by its relative name."""
    monkeypatch.chdir(tmp_path)

    def write_and_read(name: str, data: bytes, **settings: Any) -> Reading:
        Path(name).write_bytes(data)
        return read_sources(name, **settings)

    return write_and_read


def write_pdf(pages: Sequence[bytes], *, title: str = "", spoil: Sequence[int] = ()) -> bytes:
    """Write a minimal PDF by hand, one line of text per page; spoilt pages name no known filter."""
    kids = " ".join(f"{4 + 2 * i} 0 R" for i in range(len(pages)))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for i, text in enumerate(pages):
        content = b"BT /F1 12 Tf 72 720 Td (" + text + b") Tj ET" if text else b""
        filters = b"/Filter /NoSuchFilter " if i in spoil else b""
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents %d 0 R"
            b" /Resources << /Font << /F1 3 0 R >> >> >>" % (5 + 2 * i)
        )
        objects.append(
            b"<< %s/Length %d >>\nstream\n%s\nendstream" % (filters, len(content), content)
        )
    objects.append(f"<< /Title ({title}) >>".encode())
    return _assemble_pdf(objects)


def _assemble_pdf(objects: Sequence[bytes]) -> bytes:
    """Number the objects and write the cross-reference table; the last one is the description."""
    data, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(data))
        data += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"<< /Size %d /Root 1 0 R /Info %d 0 R >>" % (len(objects) + 1, len(objects))
    head = b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    return data + head + table + b"trailer\n%s\nstartxref\n%d\n%%%%EOF\n" % (trailer, len(data))


def write_docx(fill: Callable[[Any], None]) -> bytes:
    """Write a Word file with python-docx."""
    import docx

    document, stream = docx.Document(), BytesIO()
    fill(document)
    document.save(stream)
    return stream.getvalue()


@pytest.fixture
def make_pdf() -> Callable[..., bytes]:
    """Write a PDF from page texts."""
    return write_pdf


@pytest.fixture
def make_docx() -> Callable[[Callable[[Any], None]], bytes]:
    """Write a Word file by a function that fills it."""
    return write_docx
