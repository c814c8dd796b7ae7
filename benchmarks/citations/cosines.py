"""Cosines of questions and sentences by MiniLM, made once, for machines without the encoder.

python -m benchmarks.citations.cosines QUESTIONS.jsonl.gz … COSINES.json.gz
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.citations.pack import open_questions
from quoth.answer.nearness import EncodeSentences, sentence_cosines, sentences_of


def main() -> None:
    """Encode the sentences of all passages of all questions."""
    from quoth.models.glow.plain import open_encoder
    from quoth.models.pretrained import DEFAULT_NAME

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("questions", type=Path, nargs="+")
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    encoder = open_encoder(DEFAULT_NAME)
    found: dict[str, dict[str, float]] = {}
    for question in chain.from_iterable(map(open_questions, given.questions)):
        sentences = sentences_of(question.passages)
        cosines = sentence_cosines(
            question.text, sentences, encode=lambda texts: encoder.encode_queries(texts).vectors
        )
        own = found.setdefault(question.text, {})
        for sentence, cosine in zip(sentences, cosines.tolist(), strict=True):
            own[sentence.text] = round(cosine, 5)
    with gzip.open(given.out, "wt") as stream:
        json.dump(found, stream)


def open_cosines(path: Path) -> EncodeSentences:
    """Return an encoder of two dimensions whose cosines are those that were written."""
    with gzip.open(path, "rt") as stream:
        return encode_by(json.load(stream))


def encode_by(cosines: Mapping[str, Mapping[str, float]]) -> EncodeSentences:
    """Turn cosines into vectors; the first text is the question, unknown ones are at right angles.

    >>> encode_by({"Who hunts?": {"Owls hunt.": 0.6}})(["Who hunts?", "Owls hunt.", "Hm."]).tolist()
    [[1.0, 0.0], [0.6000000238418579, 0.800000011920929], [0.0, 1.0]]
    """

    def encode(texts: Sequence[str]) -> NDArray[np.float32]:
        own = cosines.get(texts[0], {})
        near = np.array([1.0, *(own.get(each, 0.0) for each in texts[1:])])
        far = np.sqrt(np.maximum(0.0, 1.0 - near**2))
        return np.column_stack([near, far]).astype(np.float32)

    return encode


if __name__ == "__main__":
    main()
