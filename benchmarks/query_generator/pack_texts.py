"""Pack the pairs that the causal query generator is trained on, as texts.

    python -m benchmarks.query_generator.pack_texts [--data ../shared/data] [--base FOLDER]

The pairs of `pack`, with the same held-out documents, and up to 1,500 questions of each reading
source of `benchmarks.generation.pack` with the piece that holds the answer. Nothing of any dev or
test split. Passages are cut where neither generator reads on. Writes files of at most 13 MB.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer

from benchmarks.generation.pack import READING, reading_questions
from benchmarks.query_generator.pack import (
    capped_pairs,
    every_pair,
    is_held_out,
    writable,
)
from benchmarks.query_generator.recipe import QueryPair
from benchmarks.query_generator.text_pairs import TextPairs, save_text_pairs
from quoth.models.digests import cache_folder
from quoth.models.language_models import EMBEDDED_NAME, find_language_model
from quoth.models.pretrained import DEFAULT_NAME, find_folder, load_tokenizer
from quoth.models.query_generator.config import CausalGeneratorConfig, QueryGeneratorConfig
from quoth.models.query_generator.inputs import QueryGeneratorInputs

OUT = Path("benchmarks/.cache/query_generator")
FILE_BYTES = 13_000_000
_BLOCK = 2_000


def main() -> None:
    """Read, choose and pack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--base", default=EMBEDDED_NAME, help="the language model")
    parser.add_argument("--reading", type=int, default=1500, help="questions of a reading source")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    config = QueryGeneratorConfig()
    inputs = QueryGeneratorInputs(load_tokenizer(find_folder(DEFAULT_NAME)), config)
    kept = writable(every_pair(given.data), inputs, config)
    chosen = [(pair, pair.passage) for pair in capped_pairs(kept)]
    for name in READING:
        path = given.data / "text" / "reading" / f"{name}.jsonl.zst"
        chosen += list(reading_pairs(path, name, count=given.reading))
    held_out = np.array([is_held_out(document) for _pair, document in chosen])
    tokenizers = (inputs.tokenizer, load_tokenizer(_base(given.base)))
    passages = cut_passages([pair.passage for pair, _document in chosen], tokenizers)
    cut = [
        QueryPair(passage, pair.query, pair.source)
        for passage, (pair, _document) in zip(passages, chosen, strict=True)
    ]
    paths = save_text_pairs(given.out, TextPairs(cut, held_out), most=FILE_BYTES)
    report(cut, held_out)
    for path in paths:
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


def reading_pairs(path: Path, name: str, *, count: int) -> Iterator[tuple[QueryPair, str]]:
    """Yield questions with the piece that holds an answer, and the document it is cut from."""
    questions, pieces = reading_questions(path)
    pieces_by_docid: dict[str, list[str]] = {}
    for piece in pieces:
        pieces_by_docid.setdefault(piece.docid, []).append(piece.text)
    for at in np.random.default_rng(4).permutation(len(questions))[:count].tolist():
        question, answers, docid = questions[at]
        own = pieces_by_docid[docid]
        right = next((piece for piece in own if any(each in piece for each in answers)), None)
        if right is not None and question.strip():
            yield QueryPair(right, question, f"reading/{name}"), " ".join(own)


def cut_passages(texts: Sequence[str], tokenizers: Sequence[Tokenizer]) -> list[str]:
    """Tidy white space, and cut texts after the most subwords that any generator reads."""
    most = max(
        CausalGeneratorConfig().max_passage_subwords, QueryGeneratorConfig().max_passage_subwords
    )
    tidy = [" ".join(text.split()) for text in texts]
    ends = [0] * len(tidy)
    for tokenizer in tokenizers:
        for start in range(0, len(tidy), _BLOCK):
            block = tidy[start : start + _BLOCK]
            for at, found in enumerate(tokenizer.encode_batch(block, add_special_tokens=False)):
                whole = len(found.ids) <= most
                end = len(block[at]) if whole else found.offsets[most - 1][1]
                ends[start + at] = max(ends[start + at], end)
    return [text[:end] for text, end in zip(tidy, ends, strict=True)]


def report(
    pairs: Sequence[QueryPair], held_out: np.ndarray[tuple[int], np.dtype[np.bool_]]
) -> None:
    """Print the pairs per source, and how many of them are held out."""
    counts = Counter(pair.source for pair in pairs)
    held = Counter(
        pair.source for pair, is_held in zip(pairs, held_out.tolist(), strict=True) if is_held
    )
    for source, count in counts.items():
        print(f"{source:32} {count:8,} {held[source]:6,} held out")
    passages = {pair.passage for pair in pairs}
    print(
        f"{len(pairs):,} pairs, {len(passages):,} passages, {sum(map(len, passages)):,} characters"
    )


def _base(name: str) -> Path:
    return find_language_model(name, cache=cache_folder())


if __name__ == "__main__":
    main()
