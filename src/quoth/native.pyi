from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import ParamSpec, TypeVar

from quoth.records import Passage, Snippet, Span

_P = ParamSpec("_P")
_R = TypeVar("_R")

INTERFACE: int

def maker(record: Callable[_P, _R], /) -> Callable[_P, _R]: ...
def weigh(
    record: bytes, keys: bytes, weights: bytes, telling_length: float, k1: float, /
) -> list[float]: ...
def heaviest(
    records: list[bytes],
    fields: list[Mapping[str, tuple[str, ...]]],
    besides: Container[str],
    keys: bytes,
    weights: bytes,
    telling_length: float,
    k1: float,
    /,
) -> list[tuple[str, int, int, int, str, bytes] | None]: ...
def keys(terms: list[str], /) -> bytes: ...
def sketch(words: bytes, run: int, size: int, least: int, /) -> bytes: ...
def group(signatures: list[bytes], keys: int, sketch_size: int, least: float, /) -> list[int]: ...
def snippets(
    passages: list[tuple[Passage, bytes]],
    place: Callable[[str, bytes], list[tuple[int, int, str]]],
    weights: Mapping[str, float],
    max_chars: int,
    make_span: Callable[[int, int], Span],
    make_snippet: Callable[[str, Span, tuple[Span, ...]], Snippet],
    /,
) -> list[Snippet]: ...
def write_content(fields: dict[str, tuple[str, ...]], metadata: str, /) -> str: ...
def write_usual(docid: object, fields: object, longest: int, /) -> str | None: ...
def read_fields(content: object, /) -> dict[str, list[str]] | None: ...
def derive(
    documents: list[dict[str, tuple[str, ...]]],
    only: tuple[str, ...],
    max_words: int,
    signature: tuple[int, int, int, int],
    /,
) -> list[tuple[tuple[tuple[str, int, int, int], ...] | None, bytes | None]]: ...

class PostingsBuilder:
    def __init__(self, lengths: bytes, default_view: int, /) -> None: ...
    def add(
        self,
        rows: bytes,
        documents: tuple[Mapping[str, Sequence[str]], ...],
        views: dict[str, int],
        start: int,
        most: int,
        /,
    ) -> int: ...
    def size(self) -> int: ...
    def count(self) -> int: ...
    def write(self, handle: int, k1: float, averages: bytes | None, /) -> None: ...

class Segments:
    def __init__(self, data: list[memoryview], gone: bytes | None, /) -> None: ...
    def search(
        self,
        wanted: list[tuple[str, bytes, bytes | None]],
        conditions: list[tuple[str, int, bool]],
        allowed: bytes | None,
        num_documents: int,
        norms: tuple[bytes, ...],
        averages: bytes,
        k1: float,
        k: int,
        /,
    ) -> list[tuple[int, float]]: ...
    def merge(
        self, start: int, end: int, handle: int, k1: float, averages: bytes, lengths: bytes, /
    ) -> None: ...
    def counts(self) -> list[int]: ...
    def averages(self) -> list[bytes]: ...
    def digest(self) -> int: ...

class Words:
    def __init__(self, look_up: Callable[[str], str], most: int, /) -> None: ...
    def terms(self, text: str, /) -> list[str]: ...
    def place(self, text: str, wanted: Collection[str], /) -> list[tuple[int, int, str]]: ...
    def place_known(
        self, text: str, wanted: Container[str], keys: bytes, wanted_keys: bytes, /
    ) -> list[tuple[int, int, str]] | None: ...

class Analysis:
    def __init__(
        self,
        of_words: Callable[[list[str]], list[str]],
        of_chunk: Callable[[str, bool], Sequence[str]],
        most: int,
        /,
    ) -> None: ...
    def read(
        self,
        documents: list[dict[str, list[str]]],
        places: list[list[tuple[int, str, int, int, int]]],
        /,
    ) -> (
        tuple[
            tuple[dict[str, list[str]], ...],
            tuple[bytes, ...],
            list[tuple[str | None, bool, int, dict[str, int]]],
        ]
        | None
    ): ...
