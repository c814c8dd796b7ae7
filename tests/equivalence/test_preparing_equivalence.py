"""What compiled code derives from documents on their way into the store is what Python does."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quoth.collection.content import (
    _is_usual,
    read_content,
    write_content,
    write_slowly,
    write_usual,
)
from quoth.collection.preparing import DocumentPortion, prepare_document, prepare_portion
from quoth.records import Document
from quoth.text.passages import PassageConfig, place_passages
from quoth.text.signatures import MOST_CHARACTERS, SIGNATURE_FORM, _split, sketch_slowly

native = pytest.importorskip("quoth.native", reason="nothing was compiled")

WORDS = (
    "owl Owls it's Dr. e.g. U.S. J. K. İ. ſ. No. p. 3. 12. 123. ph.d. (Mr. “etc. fig. İnc. 7) * +"
    " - • 1. # ## ####### === --- ``` ~~~~ `` ```py ~~~`x ::: ''' ... ?! … ؟ ۔ । .” .) !» ?] :} ß"
    " œuvre Über Ωmega ΣΑΣ 東京 。」 １ ² ªb snake_case \u00ad \u2060 \u0301"
)
BREAKS = ("\n", "\n\n", "\r\n", "\r", "\n    ", "\n\t", " ", "  ", "\u00a0", "\x0b", "\x1c", "\x85")
PIECES = st.sampled_from((*WORDS.split(), *BREAKS, *BREAKS, "w" * 2001))
LETTERS = st.characters(codec="utf-8", exclude_characters="\0")
TEXTS = (
    st.lists(PIECES, max_size=60).map(" ".join)
    | st.lists(PIECES | LETTERS, max_size=60).map("".join)
    | st.text(st.sampled_from("aZ .\n#`~=-*1)(\"'\r\t"), max_size=80)
)
FIELDS = st.dictionaries(
    st.sampled_from(["text", "title", '"é"\n']), st.lists(TEXTS, max_size=3).map(tuple), max_size=3
)
BUDGETS = st.sampled_from([1, 2, 3, 5, 8, 20, 180])


def _derive(
    fields: Mapping[str, tuple[str, ...]], config: PassageConfig
) -> tuple[tuple[tuple[str, int, int, int], ...] | None, bytes | None]:
    (found,) = native.derive([dict(fields)], config.fields, config.max_words, SIGNATURE_FORM)
    return found


@given(FIELDS, BUDGETS, st.sampled_from([(), ("title",)]))
@example({"text": ("Poe. " * 700 + "\n\n# A\n\n" + "An owl! " * 300,)}, 180, ())
def test_places(fields: dict[str, tuple[str, ...]], most: int, only: tuple[str, ...]) -> None:
    config = PassageConfig(max_words=most, fields=only)
    places, _signature = _derive(fields, config)
    expected = place_passages(Document("d", fields), config)
    is_unusual = any(ord(each) >= 0x2E80 for own in fields.values() for each in "".join(own))
    assert places == expected or (
        places is None and (is_unusual or "w" * 2001 in str(fields.values()))
    )


@given(st.lists(st.lists(PIECES, max_size=90).map(" ".join), max_size=3))
def test_signatures(texts: list[str]) -> None:
    _places, signature = _derive({"text": tuple(texts)}, PassageConfig())
    joined = "\n".join(texts)
    if signature is None:
        assert "İ" in joined or "Σ" in joined
    else:
        assert signature == sketch_slowly(_split(joined))


def test_signatures_with_every_character() -> None:
    step = 1 << 10
    for start in range(0, sys.maxunicode + 1, step):
        text = "".join(f"a{chr(code)}b {chr(code)}" for code in range(start, start + step))
        for part in (text, text.replace("İ", "").replace("Σ", "")):
            _places, signature = _derive({"text": (part,)}, PassageConfig())
            assert signature is None or signature == sketch_slowly(_split(part))
        assert signature is not None


@pytest.mark.parametrize("before", [MOST_CHARACTERS - 40, MOST_CHARACTERS - 1, MOST_CHARACTERS])
def test_signatures_of_the_beginnings_of_long_texts(before: int) -> None:
    texts = ("owl " * (before // 4), "one two three " * 40, "four five six " * 9)
    _places, signature = _derive({"text": texts}, PassageConfig())
    assert signature == sketch_slowly(_split("\n".join(texts)[:MOST_CHARACTERS]))


@given(FIELDS, st.dictionaries(st.text(LETTERS), st.integers() | st.text(LETTERS), max_size=2))
@example({"\x7f\u2028": ('\x00\x1f"\\/\b\f\n\r\t\x7f',)}, {})
def test_content(fields: dict[str, tuple[str, ...]], metadata: dict[str, int | str]) -> None:
    document = Document("d", fields, metadata)
    content = write_content(document)
    assert content == write_slowly(document)
    assert read_content("d", content) == document
    read = native.read_fields(content)
    assert read == {name: list(texts) for name, texts in fields.items()} or (
        read is None and (metadata or "\\u00" in content)
    )


PARTS = ("", '"', "\\", "\\n", "\\/", "\\u00e9", ",", "]", "}", " ", "\n", "[", ":", "x")


@given(FIELDS, st.data())
def test_content_that_was_altered(fields: dict[str, tuple[str, ...]], data: st.DataObject) -> None:
    content = write_content(Document("d", fields))
    at = data.draw(st.integers(0, len(content)))
    new = data.draw(
        st.sampled_from(
            ["", '"', "\\", "\\n", "\\/", "\\u00e9", ",", "]", "}", " ", "\n", "[", ":", "x"]
        )
    )
    altered = content[:at] + new + content[at + data.draw(st.integers(0, 2)) :]
    read = native.read_fields(altered)
    if read is not None:
        assert json.loads(altered) == {"fields": read, "metadata": {}}
    assert native.read_fields(altered.encode()) is None


ODD = st.sampled_from(
    ["", "*", "d", "é", "a\0", "x" * 5000, "\ud800", "\U0001f989", 7, ("x",), ["x"]]
)
NAMES = st.sampled_from(["", "*", "d", "é", "\ud800", 7])


@given(ODD, st.dictionaries(NAMES, ODD | st.tuples(ODD)))
def test_usual_documents(docid: Any, fields: dict[Any, Any]) -> None:
    document = Document(docid, fields)
    expected = write_slowly(document) if _is_usual(document) else None
    assert write_usual(document) == expected
    assert native.write_usual(docid, tuple(fields), 9) is None


@given(st.lists(FIELDS, max_size=5), BUDGETS, st.sampled_from([0, 1]))
def test_portions(fields: list[dict[str, tuple[str, ...]]], most: int, overlap: int) -> None:
    config = PassageConfig(max_words=most + 1, overlap_words=overlap)
    documents = tuple(
        Document(f"d{at}", {**own, "text": ("An owl",)}, {"at": at})
        for at, own in enumerate(fields)
    )
    alone = [
        prepare_document(each, place=lambda own: place_passages(own, config), stored=None)
        for each in documents
    ]
    stored = {each.docid: own.digest for each, own in zip(documents, alone, strict=True)}
    some = dict(list(stored.items())[1::2])
    prepared = prepare_portion(DocumentPortion(documents, some), config=config)
    assert prepared == tuple(
        own._replace(derived=None) if each.docid in some else own
        for each, own in zip(documents, alone, strict=True)
    )


@pytest.mark.parametrize("fields", [7, {"a": ["x"]}, {"a": (7,)}, {7: ("x",)}])
def test_what_holds_no_texts_is_refused(fields: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(TypeError):
        native.derive([fields], (), 180, SIGNATURE_FORM)
    with pytest.raises(TypeError):
        native.write_content(fields, "{}")
