"""A phrase vocabulary on disk, and its settings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from quoth.errors import ConfigError, Damaged, FormatMismatch
from quoth.vocabulary.phrases.config import NUM_BYTES, PhraseConfig
from quoth.vocabulary.phrases.text import join_strings
from quoth.vocabulary.phrases.vocabulary import PhraseVocabulary, build_vocabulary, open_phrases

PHRASES = [" star", " wars", " star wars", " déjà", "er", "ère"]
TEXTS = ["Star Wars", "the stars were déjà vu", "", "東京 star wars wars"]


def make_vocabulary(config: PhraseConfig | None = None) -> PhraseVocabulary:
    strings = join_strings([each.encode() for each in PHRASES])
    uses = np.arange(NUM_BYTES + len(PHRASES), dtype=np.int64)
    return build_vocabulary(strings, config=config or PhraseConfig(), uses=uses)


def test_phrases_follow_the_bytes() -> None:
    vocabulary = make_vocabulary()
    assert len(vocabulary) == NUM_BYTES + len(PHRASES)
    assert [vocabulary.text_of(NUM_BYTES + at) for at in range(len(PHRASES))] == PHRASES
    assert (vocabulary.text_of(ord("a")), vocabulary.text_of(0xC3)) == ("a", "<0xC3>")
    for wrong in (-1, len(vocabulary)):
        with pytest.raises(IndexError, match="of 262"):
            vocabulary.text_of(wrong)


@pytest.mark.parametrize("cutter", ["best_cover", "longest"])
def test_saved_and_opened_it_cuts_the_same(tmp_path: Path, cutter: str) -> None:
    saved = make_vocabulary(PhraseConfig(size=300, cutter=cutter, lowercase=False))
    saved.save(tmp_path / "phrases")
    opened = open_phrases(tmp_path / "phrases")
    assert (opened.config, opened.cutter) == (saved.config, cutter)
    assert opened.fingerprint == saved.fingerprint
    assert np.array_equal(opened.uses, saved.uses)
    first, second = saved.segment(TEXTS), opened.segment(TEXTS)
    assert np.array_equal(first.ids, second.ids)
    assert np.array_equal(first.offsets, second.offsets)
    assert opened.join(second.ids[: second.offsets[1]]) == "Star Wars"


def test_saving_again_replaces(tmp_path: Path) -> None:
    make_vocabulary(PhraseConfig(cutter="longest")).save(tmp_path)
    make_vocabulary().save(tmp_path)
    assert open_phrases(tmp_path).cutter == "best_cover"
    assert not list(tmp_path.glob("*tmp*"))


def test_fingerprints_tell_what_cuts_differently() -> None:
    configs = [PhraseConfig(), PhraseConfig(cutter="longest"), PhraseConfig(lowercase=False)]
    assert len({make_vocabulary(config).fingerprint for config in configs}) == 3
    assert make_vocabulary(PhraseConfig(seed=5)).fingerprint == make_vocabulary().fingerprint


class TestDamage:
    def test_every_altered_file_is_noticed(self, tmp_path: Path) -> None:
        make_vocabulary().save(tmp_path)
        for path in sorted(tmp_path.iterdir()):
            whole = path.read_bytes()
            path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
            with pytest.raises(Damaged, match=path.name):
                open_phrases(tmp_path)
            path.write_bytes(whole)
        open_phrases(tmp_path)

    def test_missing_and_truncated_files(self, tmp_path: Path) -> None:
        make_vocabulary().save(tmp_path)
        (tmp_path / "uses.npy").unlink()
        content = tmp_path / "phrase_content.npy"
        content.write_bytes(content.read_bytes()[:-3])
        with pytest.raises(Damaged, match=r"phrase_content.*bytes.*uses.*missing"):
            open_phrases(tmp_path)

    def test_no_vocabulary(self, tmp_path: Path) -> None:
        with pytest.raises(Damaged, match="no finished phrase vocabulary"):
            open_phrases(tmp_path)

    def test_another_format(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        make_vocabulary().save(tmp_path)
        monkeypatch.setattr("quoth.vocabulary.phrases.vocabulary.VERSION", 99)
        with pytest.raises(FormatMismatch, match="format 1"):
            open_phrases(tmp_path)


def test_all_problems_of_the_settings_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        PhraseConfig(size=10, min_use=0, drop=0.0, sample=1.5, cutter="greedy")
    message = str(caught.value)
    for part in ("size is 10", "min_use is 0", "drop is 0.0", "sample is 1.5", "'greedy'"):
        assert part in message
