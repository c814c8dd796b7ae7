"""The trie: its arrays against plain Python, changes against rebuilding, files and their damage."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quoth.artifact import FILE_NAME
from quoth.errors import CollectionError, ConfigError, Damaged, FormatMismatch, NoCollection
from quoth.index.trie import files
from quoth.index.trie import walk as trie_walk
from quoth.index.trie.build import MOST_PHRASES, build_trie, update_trie
from quoth.index.trie.files import open_trie, save_trie
from quoth.index.trie.trie import ARRAYS, Sequences, State, Trie
from quoth.index.trie.walk import read_pair, split_bits

NUM_PHRASES = 6
Pair = tuple[tuple[int, ...], int]

PAIRS = st.lists(
    st.tuples(
        st.lists(st.integers(0, NUM_PHRASES - 1), min_size=1, max_size=5).map(tuple),
        st.integers(0, 4) | st.integers(2**40, 2**40 + 2),
    ),
    max_size=40,
)


def flatten(sequences: list[tuple[int, ...]]) -> Sequences:
    ids = np.array([each for own in sequences for each in own], dtype=np.int32)
    return Sequences(ids, np.cumsum([0, *map(len, sequences)]))


def make_trie(pairs: list[Pair], *, num_phrases: int = NUM_PHRASES) -> Trie:
    owners = np.array([owner for _, owner in pairs], dtype=np.int64)
    return build_trie(flatten([own for own, _ in pairs]), owners=owners, num_phrases=num_phrases)


def read(trie: Trie) -> list[tuple[tuple[int, ...], list[int]]]:
    """All identifiers with their owners, row by row."""
    rows = np.arange(len(trie))
    sequences, postings = trie.sequences(rows), trie.postings(rows)
    return [
        (tuple(sequences.ids[lo:hi].tolist()), postings.rows[start:end].tolist())
        for (lo, hi), (start, end) in zip(
            pairwise(sequences.offsets), pairwise(postings.offsets), strict=True
        )
    ]


def assert_equal(one: Trie, other: Trie) -> None:
    for name in ARRAYS:
        own, found = getattr(one, name), getattr(other, name)
        assert own.dtype == found.dtype, name
        assert own.tolist() == found.tolist(), name
    assert one.num_owners == other.num_owners


# Equivalence


@settings(max_examples=60, deadline=None, derandomize=True)
@given(pairs=PAIRS)
def test_the_trie_holds_what_a_sorted_dictionary_holds(pairs: list[Pair]) -> None:
    trie = make_trie(pairs)
    owners_by_sequence: dict[tuple[int, ...], set[int]] = {}
    for sequence, owner in pairs:
        owners_by_sequence.setdefault(sequence, set()).add(owner)
    in_order = sorted(owners_by_sequence, key=lambda each: (len(each), each))
    assert read(trie) == [(each, sorted(owners_by_sequence[each])) for each in in_order]
    assert trie.num_owners == len({owner for _, owner in pairs})
    assert trie.find(flatten(in_order)).tolist() == list(range(len(in_order)))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(pairs=PAIRS)
def test_walking_reaches_every_identifier_and_nothing_else(pairs: list[Pair]) -> None:
    trie = make_trie(pairs)
    found: list[tuple[tuple[int, ...], int]] = []

    def walk(prefix: tuple[int, ...], state: State) -> None:
        children = list(trie.children(state))
        assert [phrase for phrase, _ in children] == sorted({phrase for phrase, _ in children})
        for phrase in range(NUM_PHRASES):
            narrowed = trie.narrow(state, phrase)
            expected = dict(children).get(phrase)
            if expected is None:
                assert narrowed.lo == narrowed.hi
            else:
                assert narrowed == expected
                walk((*prefix, phrase), narrowed)
        if not children:
            assert state.hi == state.lo + 1 and trie.length(state.lo) == state.depth
            found.append((prefix, state.lo))

    for lo, hi in pairwise(trie.length_rows.tolist()):
        if lo < hi:
            walk((), State(lo, hi, 0))
    assert found == [(sequence, row) for row, (sequence, _) in enumerate(read(trie))]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(pairs=PAIRS)
def test_each_identifier_is_listed_under_its_rarest_phrase(pairs: list[Pair]) -> None:
    """And the second rarest of its phrases, if it has one, stands beside it."""
    trie = make_trie(pairs)
    counts = np.bincount(trie.phrase_ids, minlength=NUM_PHRASES)
    expected: list[list[tuple[int, int]]] = [[] for _ in range(NUM_PHRASES)]
    for row, (sequence, _) in enumerate(read(trie)):
        rarest = sorted(set(sequence), key=lambda each: (counts[each], each))
        expected[rarest[0]].append((row, rarest[:2][-1]))
    assert list_pairs(trie) == expected


def list_pairs(trie: Trie) -> list[list[tuple[int, int]]]:
    """Row and phrase of all entries, phrase by phrase."""
    bits, _ = split_bits(len(trie), trie.num_phrases)
    entries = [int(read_pair(trie.rarest_pairs, at)) for at in range(len(trie))]
    found = [(entry & ((1 << bits) - 1), entry >> bits) for entry in entries]
    return [found[lo:hi] for lo, hi in pairwise(trie.rarest_starts)]


def test_a_phrase_that_does_not_fit_loses_its_lowest_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        trie_walk, "_PAIR_BITS", 3
    )  # two for three rows, one of the three for 0 to 5
    trie = make_trie([((5, 0), 0), ((4, 1), 1), ((5, 4), 2)])
    assert split_bits(len(trie), NUM_PHRASES) == (2, 2)
    assert list_pairs(trie)[:2] == [[(1, 5 >> 2)], [(0, 4 >> 2)]]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(old=PAIRS, new=PAIRS, removed=st.sets(st.integers(0, 4)))
def test_changing_equals_rebuilding(old: list[Pair], new: list[Pair], removed: set[int]) -> None:
    owners = np.array([owner for _, owner in new], dtype=np.int64)
    changed = update_trie(
        make_trie(old),
        added=flatten([own for own, _ in new]),
        owners=owners,
        removed=np.array(sorted(removed), dtype=np.int64),
    )
    kept = [(own, owner) for own, owner in old if owner not in removed]
    assert_equal(changed, make_trie([*kept, *new]))


def test_adding_alone_equals_rebuilding() -> None:
    old, new = [((1, 2), 7), ((3,), 7)], [((1, 2), 5), ((0, 4, 1), 7)]
    changed = update_trie(
        make_trie(old), added=flatten([own for own, _ in new]), owners=np.array([5, 7])
    )
    assert_equal(changed, make_trie([*old, *new]))


def test_large_ids_are_sorted_over_several_keys() -> None:
    rng = np.random.default_rng(3)
    drawn = [tuple(rng.choice([0, 1, 2**20], 7).tolist()) for _ in range(200)]
    trie = make_trie([(own, 0) for own in drawn], num_phrases=2**20 + 1)
    assert [sequence for sequence, _ in read(trie)] == sorted(set(drawn))


# Arithmetic


def test_numbers_are_stored_as_small_as_they_fit() -> None:
    assert make_trie([((1,), 2**31 - 1)]).owners.dtype == np.int32
    assert make_trie([((1,), 2**31)]).owners.dtype == np.int64


def test_what_is_no_identifier_is_not_found() -> None:
    trie = make_trie([((1, 2), 0), ((3,), 0)])
    unknown = flatten([(1,), (1, 3), (2, 1), (5, 5), (1, 2, 3), (3,)])
    assert trie.find(unknown).tolist() == [-1, -1, -1, -1, -1, 0]


@pytest.mark.parametrize(
    ("sequences", "owners", "message"),
    [
        ([(1,)], [0, 1], "2 owners, expected one for each of 1"),
        ([(1,), ()], [0, 1], "sequences of 0 to 1 phrases"),
        ([(1,) * (MOST_PHRASES + 1)], [0], f"expected 1 to {MOST_PHRASES}"),
        ([(1, NUM_PHRASES)], [0], f"expected 0 to {NUM_PHRASES - 1}"),
        ([(-1, 0)], [0], "phrase ids of -1 to 0"),
    ],
)
def test_impossible_sequences_are_refused(
    sequences: list[tuple[int, ...]], owners: list[int], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        build_trie(flatten(sequences), owners=np.array(owners), num_phrases=NUM_PHRASES)


# Round trip


@pytest.fixture
def pairs() -> list[Pair]:
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 5, 50).tolist()
    drawn = [tuple(rng.integers(0, NUM_PHRASES, length).tolist()) for length in lengths]
    return [
        (sequence, int(owner))
        for sequence, owner in zip(drawn, rng.integers(0, 9, 50), strict=True)
    ]


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_saved_trie_is_mapped_as_it_was(tmp_path: Path, pairs: list[Pair]) -> None:
    trie = make_trie(pairs)
    save_trie(trie, tmp_path / "trie")
    mapped = open_trie(tmp_path / "trie", deep=True)
    assert_equal(mapped, trie)
    assert not mapped.phrase_ids.flags.writeable


def test_no_identifiers_can_be_saved_and_opened(tmp_path: Path) -> None:
    save_trie(make_trie([]), tmp_path)
    assert len(open_trie(tmp_path)) == 0


def test_a_changed_trie_has_the_files_of_a_rebuilt_one(tmp_path: Path, pairs: list[Pair]) -> None:
    save_trie(make_trie(pairs[:30]), tmp_path / "changed")
    new = pairs[30:]
    changed = update_trie(
        open_trie(tmp_path / "changed"),
        added=flatten([own for own, _ in new]),
        owners=np.array([owner for _, owner in new]),
        removed=np.array([3]),
    )
    save_trie(changed, tmp_path / "changed", change=2)
    kept = [(own, owner) for own, owner in pairs[:30] if owner != 3]
    save_trie(make_trie([*kept, *new]), tmp_path / "rebuilt", change=2)
    assert contents(tmp_path / "changed") == contents(tmp_path / "rebuilt")


def test_a_killed_save_leaves_the_old_trie(
    tmp_path: Path, pairs: list[Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    save_trie(make_trie(pairs[:10]), tmp_path)

    def fail(*_: Any) -> None:
        raise OSError("killed")

    with monkeypatch.context() as patched, pytest.raises(CollectionError, match="killed"):
        patched.setattr(files, "save_artifact", fail)
        save_trie(make_trie(pairs), tmp_path)
    assert_equal(open_trie(tmp_path, deep=True), make_trie(pairs[:10]))
    save_trie(make_trie(pairs), tmp_path)
    assert len(list(tmp_path.iterdir())) == len(ARRAYS) + 1


# Damage


def test_there_may_be_no_trie(tmp_path: Path) -> None:
    with pytest.raises(NoCollection, match="holds no trie"):
        open_trie(tmp_path)


@pytest.mark.parametrize("name", ARRAYS)
def test_damage_is_noticed(tmp_path: Path, pairs: list[Pair], name: str) -> None:
    save_trie(make_trie(pairs), tmp_path)
    [path] = tmp_path.glob(f"{name}-*.npy")
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(Damaged, match="were written"):
        open_trie(tmp_path)
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(Damaged, match="was altered"):
        open_trie(tmp_path, deep=True)
    path.unlink()
    with pytest.raises(Damaged, match="is missing"):
        open_trie(tmp_path)


def test_arrays_of_two_tries_are_noticed(tmp_path: Path, pairs: list[Pair]) -> None:
    """What a wrong description could do must not reach the kernels, which check no bounds."""
    trie, other = make_trie(pairs), make_trie(pairs[:5])
    mixed = Trie(
        **{name: getattr(trie, name) for name in ARRAYS if name != "rarest_pairs"},
        rarest_pairs=other.rarest_pairs,
        num_owners=1,
    )
    save_trie(mixed, tmp_path)
    with pytest.raises(Damaged, match="rarest_pairs, expected"):
        open_trie(tmp_path)


def test_another_format_is_refused(
    tmp_path: Path, pairs: list[Pair], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(files, "VERSION", 1)
        save_trie(make_trie(pairs), tmp_path)
    with pytest.raises(FormatMismatch, match=r"format 1.* build the identifiers' index again"):
        open_trie(tmp_path)


def test_an_altered_description_is_noticed(tmp_path: Path, pairs: list[Pair]) -> None:
    save_trie(make_trie(pairs), tmp_path)
    path = tmp_path / FILE_NAME
    path.write_text(path.read_text().replace("int32", "int64", 1))
    with pytest.raises(Damaged, match="was altered"):
        open_trie(tmp_path)
    path.write_text("{}")
    with pytest.raises(Damaged):
        open_trie(tmp_path)
