"""Read an uploaded file into documents, as `quoth add` would read it from a folder.

The file is written under a name of ours with the ending of its own; nothing else of what a client
calls it becomes part of a path. Documents and problems name it as the client does.
"""

from __future__ import annotations

import os
import posixpath
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace

from quoth.engine.adding import deduplicate
from quoth.errors import CorpusError
from quoth.records import Document, Located, Place, Problem
from quoth.settings.server import MAX_DOCID_CHARS
from quoth.text.readers.config import ReaderConfig
from quoth.text.readers.files import FORMAT_BY_SUFFIX, show_path
from quoth.text.readers.reading import read_documents

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class ReadUpload:
    """The documents of a file, and what of it was skipped."""

    documents: tuple[Document, ...]
    problems: tuple[Problem, ...]


def clean_name(name: str) -> str:
    """Make a name that documents may carry: relative, without steps upwards or control characters.

    >>> clean_name("notes/../../owls.md"), clean_name("/home/me/a b.txt")
    ('owls.md', 'home/me/a b.txt')
    """
    plain = _CONTROL.sub("", name.replace("\\", "/")).encode("utf-8", "replace").decode()
    cleaned = posixpath.normpath("/" + plain).lstrip("/")
    if not cleaned or len(cleaned) > MAX_DOCID_CHARS:
        raise CorpusError("the file has no name, or one that is too long")
    return cleaned


def read_upload(name: str, data: bytes, config: ReaderConfig) -> ReadUpload:
    """Read a file; each piece of it is a document or a problem."""
    shown = clean_name(name)
    ending = max(
        (each for each in FORMAT_BY_SUFFIX if shown.lower().endswith(each)), key=len, default=""
    )
    problems: list[Problem] = []
    if not ending:
        problem = Problem(Place(shown), "unknown format, so it was not added")
        return ReadUpload((), (problem,))
    with tempfile.TemporaryDirectory(prefix="quoth-") as folder:
        path = os.path.join(folder, f"upload{ending}")
        with open(path, "wb") as stream:
            stream.write(data)
        renamed = _Renamed(show_path(path), shown, problems)
        read = read_documents([path], config=config, report=renamed.report)
        documents = tuple(deduplicate(renamed.documents(read), problems.append))
    return ReadUpload(documents, tuple(problems))


class _Renamed:
    """Gives what was read from one path the name of another."""

    def __init__(self, old: str, new: str, problems: list[Problem]) -> None:
        self._old, self._new, self._problems = old, new, problems

    def report(self, problem: Problem) -> None:
        place = replace(problem.place, path=self._name(problem.place.path))
        self._problems.append(replace(problem, place=place))

    def documents(self, read: Iterator[Located]) -> Iterator[Located]:
        for located in read:
            document = located.document
            metadata = {
                key: self._name(value) if isinstance(value, str) else value
                for key, value in document.metadata.items()
            }
            renamed = replace(document, docid=self._name(document.docid), metadata=metadata)
            place = replace(located.place, path=self._name(located.place.path))
            yield Located(renamed, place)

    def _name(self, text: str) -> str:
        return self._new + text[len(self._old) :] if text.startswith(self._old) else text
