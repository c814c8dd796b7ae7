"""Choose the texts of the experiment that settles GLOW: passages to train on, sets to judge by.

    python -m benchmarks.glow.texts [--data ../shared/data] [--passages 150000]

Passages come in equal parts from natural pairs and from Wikipedia, none from a set that is judged.
An article's title is the title of its passages. Of the pairs, half (by seed) lend their query as
the title, and the others keep it as a query to train on. Sets are those of `pack`. Texts are cut to
what is read of them. `settle` writes queries for them and trains.
"""

from __future__ import annotations

import argparse
import json
import lzma
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.glow.pack import SETS, choose_set, read_pairs

OUT = Path("benchmarks/.cache/glow/texts.json.xz")
PASSAGE_WORDS, DOCUMENT_WORDS = 110, 200
LEAST_WORDS = 25

Row = tuple[str, str, str]  # title, text, query or ""


def main() -> None:
    """Choose, cut and compress."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--passages", type=int, default=150_000)
    parser.add_argument("--documents", type=int, default=4_000, help="of each set, at most")
    parser.add_argument("--sets", type=int, default=len(SETS), help="how many, to debug with few")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    chance = np.random.default_rng(0)
    pairs = list(pair_rows(given.data / "text" / "pairs.jsonl.zst", chance))
    articles = list(article_rows(given.data / "text" / "lm_train.jsonl.zst"))
    half = given.passages // 2
    drawn = draw(pairs, half, chance)
    drawn += draw(articles, given.passages - len(drawn), chance)
    passages = [drawn[at] for at in chance.permutation(len(drawn))]
    sets = [
        choose_set(given.data / "ir" / name, split, given.documents)
        for name, split in SETS[: given.sets]
    ]
    for own in sets:
        own["documents"] = [
            (title, shorten(text, DOCUMENT_WORDS)) for title, text in own["documents"]
        ]
    content = json.dumps({"passages": passages, "sets": sets}, ensure_ascii=False).encode()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_bytes(lzma.compress(content, preset=6))
    print(
        f"{len(passages):,} passages ({len(pairs):,} pairs, {len(articles):,} parts of articles to "
        f"draw from), {sum(bool(row[2]) for row in passages):,} natural queries; "
        f"{given.out.stat().st_size / 2**20:.1f} MiB"
    )


def pair_rows(path: Path, chance: np.random.Generator) -> Iterator[Row]:
    """Yield one row per passage of the natural pairs; medquad's site is judged and stays out."""
    seen: set[str] = set()
    for pair in read_pairs(path):
        if pair["source"] == "medquad" or pair["passage"] in seen:
            continue
        seen.add(pair["passage"])
        text = shorten(pair["passage"], PASSAGE_WORDS)
        yield (pair["query"], text, "") if chance.random() < 0.5 else ("", text, pair["query"])


def article_rows(path: Path) -> Iterator[Row]:
    """Yield the paragraphs of articles that are long enough, with the article's title."""
    command = ["zstd", "-dc", "--long=27", str(path)]
    found = subprocess.run(command, capture_output=True, check=True).stdout
    for line in found.splitlines():
        article = json.loads(line)
        for paragraph in article["text"].split("\n"):
            if len(paragraph.split()) >= LEAST_WORDS:
                yield article["title"], shorten(paragraph, PASSAGE_WORDS), ""


def draw(each: list[Any], count: int, chance: np.random.Generator) -> list[Any]:
    """Draw some without putting back, in their order; all where there are no more."""
    if len(each) <= count:
        return list(each)
    return [each[at] for at in sorted(chance.permutation(len(each))[:count])]


def shorten(text: str, words: int) -> str:
    """Keep the first words of a text.

    >>> shorten("barn  owls hunt at night", 2)
    'barn owls'
    """
    return " ".join(text.split()[:words])


if __name__ == "__main__":
    main()
