"""What compiled code chooses and cuts for a page is what Python does, only sooner."""

from __future__ import annotations

import pickle
import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quoth.compiled import quick
from quoth.index.lexical.passage_terms import (
    PassageTerms,
    PlacedPassage,
    cut_heaviest,
    cut_heaviest_slowly,
    write_record,
)
from quoth.index.lexical.passage_terms import _write_keys as write_keys
from quoth.records import Passage, ShownHit, Snippet, Span
from quoth.search.duplicates import number_groups_slowly
from quoth.search.snippets import cut_around_slowly, make_snippet, make_snippets
from quoth.text.words import Analyser, AnalyserConfig

native = pytest.importorskip("quoth.native", reason="nothing was compiled")

TERMS = st.sampled_from(["owl", "barn", "été", "東京", "a" * 100, "x"])
NAMES = ["title", "text", "name", "note"]
FIELDS = {name: (f"{name} of the first", f"the second {name}, été") for name in NAMES}
PLACES = st.tuples(
    st.integers(0, 3), st.integers(0, 1), st.integers(0, 12), st.integers(0, 40)
).map(PlacedPassage._make)
DOCUMENTS = st.lists(st.tuples(PLACES, st.lists(TERMS, max_size=20)), max_size=6)
WEIGHTS = st.dictionaries(TERMS, st.floats(0.01, 12.0))


@given(st.lists(DOCUMENTS, max_size=5), WEIGHTS, st.sets(st.sampled_from(NAMES)))
def test_heaviest_passages(
    documents: list[list[tuple[PlacedPassage, list[str]]]],
    weights: dict[str, float],
    besides: set[str],
) -> None:
    records = [write_record(*map(list, zip(*own, strict=True))) for own in documents if own]
    kept = [PassageTerms(each) for each in (*records, write_record([], []))]
    fields = [FIELDS] * len(kept)
    found = cut_heaviest(kept, fields, weights, besides=besides)
    assert found == cut_heaviest_slowly(kept, fields, weights, besides=besides)
    assert [each is None for each in found] == [*(False for _record in records), True]


def test_documents_of_many_fields() -> None:
    names = [f"field {number}" for number in range(90)]
    fields = {name: (f"owl in {name}",) for name in names}
    places = [PlacedPassage(number, 0, 0, 3) for number in range(90)]
    kept = PassageTerms(write_record(places, [["owl"] * (1 + number % 7) for number in range(90)]))
    for besides in (names[:80], names[6:], names):
        found = cut_heaviest([kept], [fields], {"owl": 1.0}, besides=besides)
        assert found == cut_heaviest_slowly([kept], [fields], {"owl": 1.0}, besides=besides)


def test_records_that_do_not_fit_are_refused() -> None:
    def cut(record: bytes, fields: object = FIELDS) -> object:
        return native.heaviest([record], [fields], (), b"", b"", 10.0, 1.2)

    one = struct.pack("=7I", 0, 1, 0, 0, 0, 9, 0)
    assert cut(one) == [("title", 0, 0, 9, "title of ", b"")]
    for record in (
        b"",
        b"\x00" * 4 + b"\xff" * 4,
        struct.pack("=12I", 0, 2, *(0, 0, 0, 9, 1), *(0, 0, 0, 9, 4)),
        struct.pack("=7I", 0, 1, 4, 0, 0, 9, 0),  # there is no such field,
        struct.pack("=7I", 0, 1, 0, 2, 0, 9, 0),  # nor such an instance
    ):
        with pytest.raises(ValueError, match="damaged"):
            cut(record)
    with pytest.raises(ValueError, match="damaged"):
        native.heaviest([one], [], (), b"", b"", 10.0, 1.2)
    with pytest.raises(ValueError, match="damaged"):
        cut(one, {"title": "no tuple"})
    with pytest.raises(TypeError, match="fields of a document"):
        cut(one, ["title"])


@given(
    st.lists(st.lists(st.integers(0, 40), max_size=12, unique=True), max_size=8),
    st.sampled_from([0.0, 0.3, 0.6, 1.0]),
)
def test_groups_of_near_identical_hits(hashes: list[list[int]], least: float) -> None:
    signatures = [struct.pack(f"={len(own)}I", *sorted(own)) for own in hashes]
    expected = number_groups_slowly(signatures, least=least)
    assert native.group(signatures, 8, 128, least) == expected


def test_groups_among_many_long_signatures() -> None:
    chance = random.Random(3)
    texts = [sorted(chance.sample(range(10_000), 128)) for _text in range(40)]
    signatures = []
    for _copy in range(300):
        own = set(chance.choice(texts))
        changed = chance.sample(sorted(own), chance.randrange(30))
        own = own.difference(changed) | set(chance.sample(range(10_000), len(changed)))
        signatures.append(struct.pack(f"={len(own)}I", *sorted(own)))
    found = native.group(signatures, 8, 128, 0.8)
    assert found == number_groups_slowly(signatures, least=0.8)
    assert 40 <= max(found) + 1 < 300


def test_signatures_that_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="cannot be compared"):
        native.group([], 65, 128, 0.5)
    with pytest.raises(TypeError):
        native.group(["text"], 8, 128, 0.5)


TEXTS = st.text(alphabet="ab \n'é東", max_size=120)


@given(
    TEXTS, st.dictionaries(st.sampled_from(["a", "b", "ab", "東", "東東", "e"]), st.floats(0, 9))
)
def test_snippets(text: str, weights: dict[str, float]) -> None:
    analyser, span = Analyser(AnalyserConfig("none")), Span(3, 3 + len(text))
    passage = Passage("d", "text", span, text)
    words = analyser.place(text, weights)
    for most in (1, 7, 30, 240):
        found = make_snippet(passage, weights, analyser=analyser, max_chars=most)
        assert found == cut_around_slowly(passage, words, weights, most)


def test_snippets_of_many_words() -> None:
    chance, analyser = random.Random(5), Analyser(AnalyserConfig())
    names = [f"w{number}" for number in range(70)]
    passages = []
    for _passage in range(50):
        text = " ".join(chance.choices([*names[:12], "owl", "x" * 30], k=chance.randrange(300)))
        passages.append(Passage("d", "text", Span(0, len(text)), text))
    for count in (0, 5, 64, 70):
        weights = {name: chance.uniform(0.1, 9.0) for name in names[:count]}
        for most in (20, 100, 240):
            keyed = [(each, write_keys(analyser.terms(each.text))) for each in passages]
            found = make_snippets(keyed, weights, analyser=analyser, max_chars=most)
            assert found == [
                cut_around_slowly(each, analyser.place(each.text, weights), weights, most)
                for each in passages
            ]


def test_what_goes_wrong_with_a_snippet_is_raised() -> None:
    passage = Passage("d", "text", Span(0, 3), "owl")
    makers = (quick(Span), quick(Snippet))

    def cut(words: object, weights: object) -> object:
        pairs = [(passage, b"")]
        return native.snippets(pairs, lambda _text, _keys: words, weights, 9, *makers)

    assert cut([(0, 3, "owl")], {"owl": 1.0}) == [Snippet("owl", Span(0, 3), (Span(0, 3),))]
    for words in ("owl", [(0, 3)], [("a", 3, "owl")]):
        with pytest.raises(TypeError):
            cut(words, {"owl": 1.0})
    with pytest.raises(KeyError, match="owl"):
        cut([(0, 3, "owl")], {})
    with pytest.raises(ValueError, match="too many terms"):
        cut([(0, 3, str(number)) for number in range(65)], {str(n): 1.0 for n in range(65)})
    with pytest.raises(AttributeError):
        native.snippets([("owl", b"")], lambda _text, _keys: [], {}, 9, *makers)
    with pytest.raises(TypeError, match="comes with the keys"):
        native.snippets([passage], lambda _text, _keys: [], {}, 9, *makers)


@given(st.text(alphabet="aAbB9'_- é", max_size=80), st.sets(st.sampled_from(["a", "b", "9", "ab"])))
def test_words_whose_keys_are_known(text: str, wanted: set[str]) -> None:
    analyser = Analyser(AnalyserConfig())
    expected = analyser.place(text, wanted)
    keys, asked = write_keys(analyser.terms(text)), write_keys(list(wanted))
    for known in (keys, b"", keys[4:], keys + b"more"):
        found = analyser.place_known(text, wanted, keys=known, wanted_keys=asked)
        assert found == expected
    others = write_keys(["other"] * (len(keys) // 4))  # what meets another's key is looked at
    assert analyser.place_known(text, wanted, keys=others, wanted_keys=asked + others[:4]) == (
        expected
    )


def test_records_made_quickly_are_the_same() -> None:
    make_passage, make_shown = quick(Passage), quick(ShownHit)
    usual = Passage("d", "text", Span(0, 3), "owl")
    found = make_passage("d", "text", Span(0, 3), "owl", 0, "")
    assert (found, hash(found), repr(found)) == (usual, hash(usual), repr(usual))
    assert pickle.loads(pickle.dumps(found)) == usual
    with pytest.raises(AttributeError):
        found.text = "barn"  # type: ignore[misc]
    with pytest.raises(TypeError, match="6 values, in order"):
        make_passage("d", "text", Span(0, 3), "owl")
    with pytest.raises(TypeError, match="10 values"):
        make_shown(rank=1)  # type: ignore[call-arg]


def test_only_classes_with_slots_are_made_quickly() -> None:
    class Slotted:
        __slots__ = ("text",)

    class Heir(Slotted):
        __slots__ = ("more", "text")

    assert native.maker(Slotted)("owl").text == "owl"
    assert native.maker(Heir)("owl", "barn").more == "owl"
    for other in (int, object(), type("Plain", (), {})):
        with pytest.raises(TypeError):
            native.maker(other)
    Slotted.__slots__ = ("text", "__doc__")  # type: ignore[assignment]
    with pytest.raises(TypeError, match="is no slot"):
        native.maker(Slotted)
