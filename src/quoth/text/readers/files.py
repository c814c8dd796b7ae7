"""Which files a source means: a file, a folder walked in sorted order, or a glob.

Folders behind symbolic links are entered, but every real folder only once per source, so loops end.
Python's own `glob` follows such loops up to the depth the system allows, hence the expansion here.
"""

from __future__ import annotations

import gzip
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from glob import has_magic

from quoth.records import Place, Problem
from quoth.text.readers.beir import pick_corpus
from quoth.text.readers.outcomes import describe, too_large

CODE_SUFFIXES = (
    *(".c", ".h", ".cc", ".cpp", ".hpp", ".cs", ".go", ".java", ".jl", ".js", ".jsx", ".kt"),
    *(".lua", ".php", ".pl", ".r", ".rb", ".rs", ".scala", ".sh", ".sql", ".swift", ".ts", ".tsx"),
)
"""Source code that is read whole; Python is read function by function."""

_TEXT_FORMATS = {
    ".txt": "txt",
    ".text": "txt",
    ".md": "md",
    ".markdown": "md",
    ".rst": "rst",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".tex": "tex",
    ".ipynb": "ipynb",
    ".eml": "eml",
    ".mbox": "mbox",
    ".py": "python",
    **dict.fromkeys(CODE_SUFFIXES, "code"),
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
}
_PACKED_FORMATS = {
    f".{kind}": kind for kind in ("pdf", "docx", "pptx", "xlsx", "odt", "odp", "ods", "epub")
}
GZIP = ".gz"

FORMAT_BY_SUFFIX = {
    **_TEXT_FORMATS,
    **_PACKED_FORMATS,
    **{f"{suffix}{GZIP}": kind for suffix, kind in _TEXT_FORMATS.items()},
}
"""The format that the end of a file's name announces, in lower case; text may be compressed."""

_NAMED = [each for each in (*_TEXT_FORMATS, *_PACKED_FORMATS) if each not in CODE_SUFFIXES]
SUPPORTED = f"{' '.join(_NAMED)}, source code, and text with {GZIP}"
"""The ends of names that are read, for people."""


def find_files(source: str) -> Iterator[str | Problem]:
    """List the files a source means, sorted, each once; what cannot be listed is a problem.

    A path that exists is never read as a glob.
    """
    place = Place(show_path(source))
    if os.path.lexists(source):
        yield from _walk([source], nothing=Problem(place, "the folder contains no files"))
    elif has_magic(source):
        matches = sorted(set(_expand(_root(source), _components(source))))
        yield from _walk(matches, nothing=Problem(place, "no file matches this pattern"))
    else:
        yield Problem(place, "no such file or folder")


def find_format(path: str) -> str | None:
    """Tell a file's format by its name.

    >>> find_format("notes/A.MD"), find_format("b.jsonl.gz"), find_format("c.exe")
    ('md', 'jsonl', None)
    """
    name = os.path.basename(path).lower()
    return next((kind for end, kind in FORMAT_BY_SUFFIX.items() if name.endswith(end)), None)


def show_path(path: str) -> str:
    """Write a path as documents and problems name it: as given, normalised, always printable.

    >>> show_path("./notes//a.md"), show_path("a/../b"), show_path("caf\\udce9")
    ('notes/a.md', 'b', 'caf\\\\xe9')
    """
    name = os.path.normpath(path).replace(os.sep, "/") if path else path
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def find_obstacle(path: str) -> str:
    """Say why a path cannot be read as a file, or nothing where it can be tried."""
    try:
        path.encode("utf-8")
        mode = os.stat(path).st_mode
    except UnicodeEncodeError:
        return "its name is not valid UTF-8, so it cannot be a docid; rename it"
    except OSError as error:
        return f"cannot be opened: {error.strerror}"
    if not stat.S_ISREG(mode):
        return "not a regular file"
    return ""


def read_whole(path: str, *, max_bytes: int, shown: str) -> bytes | Problem:
    """Read a file of bounded size, unpacked where it is compressed; a problem calls it `shown`."""
    place, is_packed = Place(shown), path.lower().endswith(GZIP)
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            if is_packed:
                with gzip.GzipFile(fileobj=stream) as unpacked:
                    data = unpacked.read(max_bytes + 1)
            else:
                data = stream.read(min(size, max_bytes) + 1)
    except (OSError, EOFError, zlib.error) as error:
        return Problem(place, f"cannot be read: {describe(error)}")
    if len(data) > max_bytes:
        found = f"more than {max_bytes:,} bytes unpacked" if is_packed else f"{size:,} bytes"
        return Problem(place, too_large(found, max_bytes))
    return data


def _walk(tops: Sequence[str], *, nothing: Problem) -> Iterator[str | Problem]:
    """List files and those below folders, each once, depth first; `nothing` if there are none."""
    pending, seen_paths, seen_folders = list(reversed(tops)), set[str](), set[tuple[int, int]]()
    found_any = False
    while pending:
        path = pending.pop()
        if os.path.isdir(path):
            children = _list_folder(path, seen_folders)
            if isinstance(children, Problem):
                found_any = True
                yield children
            else:
                pending.extend(os.path.join(path, name) for name in reversed(children))
        elif path not in seen_paths:
            found_any = True
            seen_paths.add(path)
            yield path
    if not found_any:
        yield nothing


def _list_folder(path: str, seen: set[tuple[int, int]]) -> list[str] | Problem:
    """List what of a folder is to be read; nothing if it was listed before under another name."""
    try:
        status = os.stat(path)
        names = sorted(name for name in os.listdir(path) if not name.startswith("."))
    except OSError as error:
        return Problem(Place(show_path(path)), f"folder cannot be listed: {error.strerror}")
    identity = (status.st_dev, status.st_ino)
    if identity in seen:
        return []
    seen.add(identity)
    return pick_corpus(names)


def _root(pattern: str) -> str:
    return os.sep if pattern.startswith(os.sep) else ""


def _components(pattern: str) -> list[str]:
    """Cut a pattern into the names it is made of; a run of ** means the same as one.

    >>> _components("notes//**/**/*.md")
    ['notes', '**', '*.md']
    """
    names = [name for name in pattern.split(os.sep) if name]
    return [name for i, name in enumerate(names) if name != "**" or names[i - 1 : i] != ["**"]]


def _expand(base: str, components: Sequence[str]) -> Iterator[str]:
    """Find the paths below a base that match the components of a pattern.

    A folder that may not be looked into counts as a match, so that walking it reports why.
    """
    if not components or _is_locked(base):
        yield base
        return
    first, rest = components[0], components[1:]
    if first == "**":
        folders = _folders_below(base) if rest else [base or os.curdir]
        for folder in folders:
            yield from _expand(folder, rest)
    elif has_magic(first):
        for name in _matching(base, first):
            yield from _expand(os.path.join(base, name), rest)
    elif os.path.lexists(os.path.join(base, first)):
        yield from _expand(os.path.join(base, first), rest)


def _matching(base: str, pattern: str) -> list[str]:
    """List the names in a folder that match; hidden ones only if the pattern asks for them."""
    try:
        names = os.listdir(base or os.curdir)
    except OSError:
        return []
    is_hidden_wanted = pattern.startswith(".")
    return [
        name
        for name in names
        if fnmatchcase(name, pattern) and name.startswith(".") == is_hidden_wanted
    ]


def _is_locked(path: str) -> bool:
    return os.path.isdir(path) and not os.access(path, os.R_OK | os.X_OK)


def _folders_below(base: str) -> Iterator[str]:
    """List a folder and the visible folders below it, every real folder once."""
    pending, seen = [base], set[str]()
    while pending:
        folder = pending.pop()
        identity = os.path.realpath(folder or os.curdir)
        if identity not in seen:
            seen.add(identity)
            yield folder
            below = (os.path.join(folder, name) for name in sorted(_matching(folder, "*")))
            pending.extend(path for path in below if os.path.isdir(path))
