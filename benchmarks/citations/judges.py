"""A second judge of support beside overlap: similarity of sentences by MiniLM.

The registries hold no model of entailment, so this is a stand-in, and named as such: a statement
counts as supported if some sentence of the cited passages, or two in a row, is as similar to it as
the threshold asks. It forgives paraphrases, where overlap does not, and misses wrong numbers, which
overlap does not. The threshold is the one that best tells the sources which QuoteSum's annotators
quoted from the other sources of the same question:

    python -m benchmarks.citations.judges
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.citations.scores import OverlapJudge, cut_sentences
from quoth.models.pretrained import DEFAULT_NAME, find_folder, load_encoder, load_tokenizer

SIMILAR = 0.7
_BATCH = 64
_MAX_SUBWORDS = 128
_QUOTATION = re.compile(r"\[ (\d+) (.*?) \]")


class SimilarityJudge:
    """Judges support by the cosine of mean-pooled MiniLM vectors; vectors are kept."""

    def __init__(self, threshold: float = SIMILAR, *, folder: Path | None = None) -> None:
        found = folder or find_folder(DEFAULT_NAME)
        self._threshold = threshold
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._encoder = load_encoder(found).to(self._device).eval()
        self._tokenizer = load_tokenizer(found)
        self._tokenizer.enable_truncation(_MAX_SUBWORDS)
        self._tokenizer.enable_padding()
        self._vectors: dict[str, NDArray[np.float32]] = {}

    def __call__(self, premise: str, statement: str) -> bool:
        """Judge one pair."""
        return self.similarity(premise, statement) >= self._threshold

    def similarity(self, premise: str, statement: str) -> float:
        """Return the best cosine of the statement with a sentence, or two, of the premise."""
        sentences = [
            text[span.start : span.end]
            for text in premise.split("\n")
            for span in cut_sentences(text)
        ]
        pieces = [*sentences, *(f"{one} {two}" for one, two in pairwise(sentences))]
        if not pieces or not statement.strip():
            return 0.0
        self._encode([statement, *pieces])
        own = self._vectors[statement]
        return float(max(own @ self._vectors[piece] for piece in pieces))

    @torch.inference_mode()
    def _encode(self, texts: Sequence[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        for start in range(0, len(new), _BATCH):
            own = new[start : start + _BATCH]
            read = self._tokenizer.encode_batch(own)
            ids = torch.tensor([each.ids for each in read], device=self._device)
            mask = torch.tensor([each.attention_mask for each in read], device=self._device)
            states = self._encoder(input_ids=ids, attention_mask=mask).last_hidden_state
            summed = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
            unit = torch.nn.functional.normalize(summed, dim=1).cpu().numpy()
            self._vectors.update(zip(own, unit, strict=True))


def annotated(path: Path) -> Iterator[tuple[str, str, bool]]:
    """Yield source, statement and whether the statement quotes the source and no other."""
    with gzip.open(path, "rt") as stream:
        for record in map(json.loads, stream):
            sources = {
                str(at): record[f"source{at}"] for at in range(1, 9) if record[f"source{at}"]
            }
            marked = record["summary"]
            for span in cut_sentences(marked):
                sentence = marked[span.start : span.end]
                cited = {number for number, _text in _QUOTATION.findall(sentence)}
                if len(cited) == 1 and cited <= sources.keys():
                    statement = _QUOTATION.sub(r"\2", sentence)
                    for number, source in sources.items():
                        yield source, statement, number in cited


def main() -> None:
    """Choose the threshold, and say how often each judge agrees with the annotators."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/text/cited_qa"))
    given = parser.parse_args()
    judge, overlap = SimilarityJudge(), OverlapJudge()
    pairs = list(annotated(given.data / "quotesum_dev.jsonl.gz"))
    truth = np.array([label for _source, _statement, label in pairs])
    scores = np.array([judge.similarity(source, statement) for source, statement, _ in pairs])
    words = np.array([overlap(source, statement) for source, statement, _ in pairs])
    thresholds = np.arange(0.3, 0.95, 0.05)
    balanced = [_balanced(scores >= each, truth) for each in thresholds]
    best = int(np.argmax(balanced))
    print(f"{len(pairs)} pairs, {truth.mean():.0%} quoted")
    print(f"similarity: threshold {thresholds[best]:.2f}, balanced accuracy {balanced[best]:.3f}")
    print(f"  at {SIMILAR}: {_balanced(scores >= SIMILAR, truth):.3f}")
    print(f"overlap at {overlap.threshold}: balanced accuracy {_balanced(words, truth):.3f}")


def _balanced(found: NDArray[np.bool_], truth: NDArray[np.bool_]) -> float:
    return float((found[truth].mean() + (~found[~truth]).mean()) / 2)


if __name__ == "__main__":
    main()
