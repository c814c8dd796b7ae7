"""Vectors of phrases: those of the model, encoded once, kept in memory and on disk."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tiny_language_model import TEXTS, make_dynamic_lm

from quoth.answer.candidates import make_vocabulary
from quoth.answer.config import CandidateConfig
from quoth.answer.phrase_vector_cache import PhraseVectorCache
from quoth.answer.vectors import PhraseVectors, share_rows
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.vocabulary.dynamic import DynamicVocabulary

PHRASE = st.lists(st.integers(0, 2), min_size=1, max_size=4).map(tuple)


def vocabulary_of(
    model: DynamicLM, texts: Sequence[str], *, per_passage: bool = False
) -> DynamicVocabulary:
    return make_vocabulary(
        "owl",
        texts,
        tokenise=model.inputs.tokenise_all,
        config=CandidateConfig(max_candidates=60),
        per_passage=per_passage,
    )


@pytest.fixture
def encoded(model: DynamicLM, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Notes how many phrases each encoding takes."""
    counts: list[int] = []
    encode = model.encode_phrases

    def count(rows: Any, *, lengths: Any) -> torch.Tensor:
        counts.append(sum(map(len, lengths)))
        return encode(rows, lengths=lengths)

    monkeypatch.setattr(model, "encode_phrases", count)
    return counts


@given(st.sets(PHRASE))
def test_rows_hold_every_phrase_once_and_no_row_begins_another(
    phrases: set[tuple[int, ...]],
) -> None:
    rows, lengths = share_rows(sorted(phrases))
    held = [row[:length] for row, own in zip(rows, lengths, strict=True) for length in own]
    assert sorted(held) == sorted(phrases)
    needed = [
        each
        for each in phrases
        if not any(other != each and other[: len(each)] == each for other in phrases)
    ]
    assert sorted(rows) == sorted(needed)


def test_vectors_are_those_of_each_phrase_encoded_alone(model: DynamicLM) -> None:
    texts = [TEXTS[0], TEXTS[1]]
    vocabulary = vocabulary_of(model, texts)
    found = PhraseVectors(model).encode(vocabulary, texts)
    alone = [
        model.encode_phrases([each.subword_ids], lengths=[[len(each.subword_ids)]])[0]
        for each in vocabulary.candidates
    ]
    assert torch.allclose(found, torch.stack(alone), rtol=2**-10, atol=1e-5)


def test_markers_are_part_of_what_is_encoded_where_the_model_wants_them(tmp_path: Path) -> None:
    config = DynamicLMConfig(base="tiny", marker="text")
    model = make_dynamic_lm(tmp_path / "marked", config)
    texts = ["the barn owl", "the barn owl"]
    vocabulary = vocabulary_of(model, texts, per_passage=True)
    assert [each.sources[0].passage for each in vocabulary.candidates].count(1) > 0
    found = PhraseVectors(model).encode(vocabulary, texts)
    for candidate, vector in zip(vocabulary.candidates, found, strict=True):
        marker = f"[{candidate.sources[0].passage + 1}]"
        ids = [*candidate.subword_ids, *model.inputs.tokenise(marker).subword_ids]
        (expected,) = model.encode_phrases([ids], lengths=[[len(ids)]])
        assert torch.allclose(vector, expected, rtol=2**-10, atol=1e-5)


def test_what_is_known_is_not_encoded_again(model: DynamicLM, encoded: list[int]) -> None:
    vectors = PhraseVectors(model)
    first = vocabulary_of(model, [TEXTS[0]])
    both = vocabulary_of(model, [TEXTS[0], TEXTS[1]])
    before = vectors.encode(first, [TEXTS[0]])
    assert torch.equal(vectors.encode(first, [TEXTS[0]]), before) and len(encoded) == 1
    vectors.encode(both, [TEXTS[0], TEXTS[1]])
    known = {each.subword_ids for each in first.candidates}
    assert encoded[1] == len({each.subword_ids for each in both.candidates} - known)


def test_the_least_recently_used_are_given_up(model: DynamicLM, encoded: list[int]) -> None:
    vectors = PhraseVectors(model, max_phrases=1)
    for text in (TEXTS[0], TEXTS[2], TEXTS[0]):
        vectors.encode(vocabulary_of(model, [text]), [text])
    assert len(encoded) == 3 and encoded[2] == encoded[0]


def test_an_empty_vocabulary_has_no_vectors(model: DynamicLM) -> None:
    found = PhraseVectors(model).encode(DynamicVocabulary.of([]), [])
    assert found.shape == (0, model.network.phrase_width)


# --- on disk -------------------------------------------------------------------------------------


def test_another_session_finds_the_vectors_on_the_shelf(
    model: DynamicLM, encoded: list[int], tmp_path: Path
) -> None:
    texts = [TEXTS[0], TEXTS[1]]
    vocabulary = vocabulary_of(model, texts)

    def session(name: str) -> torch.Tensor:
        cache = PhraseVectorCache(tmp_path, model=name, max_bytes=1_000_000)
        return PhraseVectors(model, cache=cache).encode(vocabulary, texts)

    first = session("a")
    assert torch.equal(session("a"), first), "an answer is the same whoever made its vectors"
    assert len(encoded) == 1
    session("another model")
    assert len(encoded) == 2


def test_a_shelf_adds_to_what_it_holds(tmp_path: Path) -> None:
    cache = PhraseVectorCache(tmp_path, model="m", max_bytes=1_000_000)
    assert cache.read("text") == {}
    cache.write("text", {(1, 2): np.ones(3, np.float32)})
    cache.write("text", {(3,): np.zeros(3, np.float32)})
    found = cache.read("text")
    assert {key: vector.tolist() for key, vector in found.items()} == {
        (1, 2): [1.0] * 3,
        (3,): [0.0] * 3,
    }
    assert (
        cache.read("other text") == {}
        and PhraseVectorCache(tmp_path, model="n", max_bytes=1).read("text") == {}
    )


def test_threads_that_write_the_same_passage_do_not_share_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = PhraseVectorCache(tmp_path, model="m", max_bytes=1_000_000)
    both_write, savez = threading.Barrier(2, timeout=300), np.savez
    names: list[str] = []

    def save(stream: Any, **arrays: Any) -> None:
        names.append(stream.name)
        both_write.wait()
        savez(stream, **arrays)

    monkeypatch.setattr(np, "savez", save)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda at: cache.write("text", {(at,): np.ones(3, np.float32)}), (1, 2)))
    assert len(set(names)) == 2
    assert list(cache.read("text")) in ([(1,)], [(2,)])
    assert [path.suffix for path in tmp_path.iterdir()] == [".npz"]


@pytest.mark.parametrize("damage", [b"", b"PK\x03\x04 broken", None])
def test_a_damaged_file_is_no_file(tmp_path: Path, damage: bytes | None) -> None:
    cache = PhraseVectorCache(tmp_path, model="m", max_bytes=1_000_000)
    cache.write("text", {(1, 2): np.ones(3, np.float32)})
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-40] if damage is None else damage)
    assert cache.read("text") == {}
    cache.write("text", {(4,): np.ones(3, np.float32)})
    assert list(cache.read("text")) == [(4,)]


def test_a_full_shelf_gives_up_what_was_not_used(tmp_path: Path) -> None:
    vectors = {(1,): np.ones(200, np.float32)}
    cache = PhraseVectorCache(tmp_path, model="m", max_bytes=1_000_000)
    cache.write("a", vectors)
    size = sum(each.stat().st_size for each in tmp_path.iterdir())
    small = PhraseVectorCache(tmp_path, model="m", max_bytes=2 * size)
    (first,) = tmp_path.iterdir()
    small.write("b", vectors)
    for path in tmp_path.iterdir():
        os.utime(path, (1.0, 1.0) if path == first else (2.0, 2.0))
    assert small.read("a")  # and so used after b
    small.write("c", vectors)
    assert [bool(small.read(each)) for each in "abc"] == [True, False, True]
    none = PhraseVectorCache(tmp_path / "none", model="m", max_bytes=0)
    none.write("a", vectors)
    assert not (tmp_path / "none").exists()


def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = PhraseVectorCache(tmp_path / "file" / "shelf", model="m", max_bytes=1_000)
    cache.write("a", {(1,): np.ones(2, np.float32)})
    assert cache.read("a") == {}
