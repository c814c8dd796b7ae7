"""Choose what nearness counts beside words where a passage of a long document is chosen.

    python -m benchmarks.hybrid.nearness [--data ../shared/data]

On questions that readers are trained on, never on those of a set that is judged: up to 60 passages
of one article, or of one source drawn by seed, stand for a document; for each question the rank of
the passage it was asked about is counted, by BM25 over these passages (`answer/passages.py`), by
cosine, and by both with several weights of the cosine. Writes results/nearness.json.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.hybrid.shown import questions
from benchmarks.lexical.quality import read
from quoth.answer.passages import score_passages
from quoth.models.glow.plain import open_encoder

RESULTS = Path(__file__).parent / "results" / "nearness.json"
ARTICLES = "squad-train-slice"
SOURCES = ("sleepqa", "squadshifts_reddit", "qasper_ni", "tatqa_text")
WEIGHTS = (0.5, 1.0, 2.0, 4.0)
DEPTHS = (1, 3, 6)
PASSAGES, GROUPS, ASKED, SEED = 60, 6, 40, 1

Group = tuple[list[str], list[tuple[str, int]]]
"""Passages, and questions with the number of the passage each was asked about."""


def main() -> None:
    """Rank, count and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    encoder = open_encoder("all-MiniLM-L6-v2")
    rows = []
    for name, groups in (
        (ARTICLES, articles(given.data / "ir" / ARTICLES)),
        *((name, source(given.data / "text" / "reading", name)) for name in SOURCES),
    ):
        ranks: dict[str, list[int]] = {}
        for group in groups:
            for choice, own in rank(encoder, *group).items():
                ranks.setdefault(choice, []).extend(own)
        row = {"source": name, "questions": len(ranks["words"]), "found": summarise(ranks)}
        print(json.dumps(row), flush=True)
        rows.append(row)
    given.out.write_text(json.dumps({"depths": DEPTHS, "rows": rows}, indent=1) + "\n")


def articles(folder: Path) -> Iterator[Group]:
    """Yield articles of many paragraphs, with questions."""
    chance = random.Random(SEED)
    paragraphs: dict[str, list[tuple[str, str]]] = {}
    for each in read(folder):
        own = paragraphs.setdefault(each.title, [])
        if each.title and len(own) < PASSAGES:
            own.append((each.docid, each.fields["text"][0]))
    long = sorted(title for title, own in paragraphs.items() if len(own) >= 20)
    asked: dict[str, list[str]] = {}
    for text, _answers, docid in questions(folder):
        asked.setdefault(docid, []).append(text)
    for title in chance.sample(long, min(2 * GROUPS, len(long))):
        own = paragraphs[title]
        pairs = [(text, at) for at, (docid, _) in enumerate(own) for text in asked.get(docid, ())]
        yield [text for _docid, text in own], chance.sample(pairs, min(ASKED, len(pairs)))


def source(folder: Path, name: str) -> Iterator[Group]:
    """Yield passages of one source that are put together by chance, with questions."""
    command = ["zstd", "-dc", "--long=27", str(folder / f"{name}.jsonl.zst")]
    content = subprocess.run(command, capture_output=True, check=True).stdout
    rows = [json.loads(line) for line in content.splitlines()]
    chance = random.Random(SEED)
    chance.shuffle(rows)
    passages = list(dict.fromkeys(row["passage"] for row in rows))
    for start in range(0, min(len(passages), GROUPS * PASSAGES), PASSAGES):
        own = passages[start : start + PASSAGES]
        places = {passage: at for at, passage in enumerate(own)}
        pairs = [(r["question"], places[r["passage"]]) for r in rows if r["passage"] in places]
        yield own, chance.sample(pairs, min(ASKED, len(pairs)))


def rank(
    encoder: Any, passages: Sequence[str], asked: Sequence[tuple[str, int]]
) -> dict[str, list[int]]:
    """Count, for every way of choosing, how many passages come before the right one."""
    order = sorted(range(len(passages)), key=lambda at: len(passages[at]))
    vectors = np.empty((len(passages), encoder.width), dtype=np.float32)
    vectors[order] = encoder.encode_documents([{"text": [passages[at]]} for at in order]).vectors
    queries = encoder.encode_queries([text for text, _at in asked]).vectors
    found: dict[str, list[int]] = {}
    for (text, right), vector in zip(asked, queries, strict=True):
        words, cosines = np.array(score_passages(text, passages)), vectors @ vector
        scaled = words / (words.max() or 1.0)
        ways = {"words": words, "nearness": cosines}
        ways |= {f"both, {weight:g}": scaled + weight * cosines for weight in WEIGHTS}
        for name, scores in ways.items():
            found.setdefault(name, []).append(num_before(scores, right))
    return found


def num_before(scores: NDArray[Any], right: int) -> int:
    """Count the others that score as much or more.

    >>> num_before(np.array([0.5, 1.0, 0.5, 0.0]), 2)
    2
    """
    return int((scores >= scores[right]).sum()) - 1


def summarise(ranks: dict[str, list[int]]) -> dict[str, list[float]]:
    """Return, for each way, the share of questions whose passage is among the first few."""
    return {
        name: [round(float(np.mean(np.array(own) < depth)), 3) for depth in DEPTHS]
        for name, own in ranks.items()
    }


if __name__ == "__main__":
    main()
