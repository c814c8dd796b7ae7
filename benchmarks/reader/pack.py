"""Pack what the reader is trained on: two small files of subwords, no texts.

    python -m benchmarks.reader.pack [--data ../shared/data] [--limit 0]

`reading.bin`: questions of squad-train-slice, of the sources in text/reading and of fairytaleqa,
each with the passage that answers it and twelve that BM25 finds for it among the passages of all
sources and that hold none of its answers; and questions in which a name, number or word was
replaced or turned into its opposite (`benchmarks.citations.unanswerable`), so that their passage
does not answer them.
`pairs.bin`: natural pairs with BM25's neighbours among the other pairs' passages. Three in a
hundred passages are held out with all their questions, and those of squad-train-slice that
`benchmarks.citations.calibrate` asks about. Nothing of any dev or test split is read.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.citations.unanswerable import contradict, holds, swap
from benchmarks.generation import pack as generation
from quoth.models.pretrained import DEFAULT_NAME, find_folder, load_tokenizer
from quoth.models.reader.config import ReaderConfig
from quoth.models.reader.inputs import ReaderInputs
from quoth.text.passages import split_sentences
from quoth.text.words import Analyser, AnalyserConfig
from quoth.training.reading.set import (
    ANSWERED,
    PAIR,
    UNANSWERED,
    Ragged,
    ReadingSet,
    save_reading_set,
)

CACHE = Path("benchmarks/.cache/reader")
HELD_OUT = 0.03
SWAPPED_SHARE, CONTRARY_SHARE = 0.3, 0.2
NEIGHBOURS, SEARCHED = 12, 40
MAX_TEXT_SUBWORDS, MAX_PAIR_SUBWORDS = 400, 176
MAX_ANSWER_SUBWORDS, MAX_PLACES = 40, 6
PAIR_CAPS = {"forum_title": 9_000, "forum_question": 9_000, "acl": 9_000, "debian": 7_000}
MAX_PAIRS = 7_000  # of any other source
PAIR_WORDS = 150


@dataclass(frozen=True)
class Text:
    """A passage with its title."""

    title: str
    text: str


@dataclass(frozen=True)
class Example:
    """A question or query and its passage; a pair has no answers."""

    source: str
    question: str
    passage: Text
    answers: tuple[str, ...] = ()
    kind: int = ANSWERED


def main() -> None:
    """Read, search, tokenise and pack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=CACHE)
    parser.add_argument("--limit", type=int, default=0, help="examples of a source; 0 for all")
    parser.add_argument("--only", default="", choices=("", "reading", "pairs"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    read = {"reading": questions, "pairs": pairs}
    for name in [given.only] if given.only else read:
        began = time.perf_counter()
        packed = pack(_limit(list(read[name](given.data)), given.limit))
        path = given.out / f"{name}.bin"
        save_reading_set(path, packed)
        report(path, packed)
        print(f"{time.perf_counter() - began:.0f} s", flush=True)


def questions(data: Path) -> Iterator[Example]:
    """Read every question with its passage and answers."""
    yield from squad_questions(data / "ir" / "squad-train-slice")
    for path in sorted((data / "text" / "reading").glob("*.zst")):
        for row in _read_zst(path):
            passage = Text(row.get("title") or "", row["passage"])
            yield Example(row["source"], row["question"], passage, tuple(row["answers"]))
    yield from story_questions(data / "text" / "cited_qa" / "fairytaleqa.jsonl.gz")


def squad_questions(folder: Path) -> Iterator[Example]:
    """Read the training questions of a collection."""
    rows = {row["_id"]: row for row in _read_gz(folder / "corpus.jsonl.gz")}
    asked = {row["_id"]: row for row in _read_gz(folder / "queries.jsonl.gz")}
    for qid, docid in generation.read_pairs(folder):
        text = Text(rows[docid].get("title") or "", rows[docid]["text"])
        yield Example(folder.name, asked[qid]["text"], text, tuple(asked[qid]["answers"]))


def story_questions(path: Path) -> Iterator[Example]:
    """Read questions about stories whose answer stands in their section."""
    for story in _read_gz(path):
        for row in story["questions"]:
            number = row["cor_section"]
            if not number.isdigit() or not 1 <= int(number) <= len(story["sections"]):
                continue
            section = story["sections"][int(number) - 1]
            answers = [row["answer1"].strip(" ."), row["answer2"].strip(" .")]
            found = tuple(_as_written(each, section) for each in answers if each)
            if any(found):
                kept = tuple(each for each in found if each)
                title = story["story"].replace("-", " ")
                yield Example("fairytaleqa", row["question"], Text(title, section), kept)


def _as_written(answer: str, text: str) -> str:
    at = text.lower().find(answer.lower())
    return text[at : at + len(answer)] if at >= 0 else ""


def pairs(data: Path) -> Iterator[Example]:
    """Read natural pairs, at most so many of a source, drawn by a seed."""
    rows = list(_read_zst(data / "text" / "pairs.jsonl.zst"))
    taken: Counter[str] = Counter()
    for at in np.random.default_rng(0).permutation(len(rows)):
        row = rows[at]
        taken[row["source"]] += 1
        if taken[row["source"]] <= PAIR_CAPS.get(row["source"], MAX_PAIRS):
            text = " ".join(row["passage"].split()[:PAIR_WORDS])
            yield Example(row["source"], row["query"], Text("", text), kind=PAIR)


def pack(examples: Sequence[Example]) -> ReadingSet:
    """Find neighbours, add questions without an answer, and tokenise."""
    chance = np.random.default_rng(0)
    passages = list(dict.fromkeys(each.passage for each in examples))
    row_by_passage = {each: row for row, each in enumerate(passages)}
    near = find_neighbours(examples, passages, row_by_passage)
    unanswered = [
        (Example(each.source, asked, each.passage, kind=UNANSWERED), own)
        for each, own in zip(examples, near, strict=True)
        if each.kind == ANSWERED
        for asked in _spoil(each, [passages[row].text for row in own[:4]], chance)
    ]
    every = [*zip(examples, near, strict=True), *unanswered]
    is_pair = examples[0].kind == PAIR
    texts = _Tokenised(passages, most=MAX_PAIR_SUBWORDS if is_pair else MAX_TEXT_SUBWORDS)
    located = [
        (each, own, texts.places(row_by_passage[each.passage], each.answers)) for each, own in every
    ]
    kept = [(a, b, c) for a, b, c in located if c or a.kind != ANSWERED]
    return _join(kept, texts, row_by_passage)


def find_neighbours(
    examples: Sequence[Example], passages: Sequence[Text], row_by_passage: dict[Text, int]
) -> list[list[int]]:
    """Find passages by BM25 that hold none of a question's answers."""
    analyser = Analyser(AnalyserConfig())
    terms = [analyser.terms(f"{each.title} {each.text}") for each in passages]
    found = generation.search_rows(
        terms, [analyser.terms(each.question) for each in examples], k=SEARCHED
    )
    near = []
    for each, rows in zip(examples, found.tolist(), strict=True):
        own = row_by_passage[each.passage]
        others = (row for row in rows if row != own and passages[row].text != each.passage.text)
        fitting = (row for row in others if not holds([passages[row].text], each.answers))
        near.append([row for row, _place in zip(fitting, range(NEIGHBOURS), strict=False)])
    return near


def _spoil(example: Example, near: Sequence[str], chance: np.random.Generator) -> Iterator[str]:
    """Ask what the passage does not answer: another name, number or word, or the opposite."""
    if chance.random() < SWAPPED_SHARE:
        own = [example.passage.text]
        texts = own if chance.random() < 0.5 or not near else near
        if asked := swap(example.question, texts, chance):
            yield asked
    if chance.random() < CONTRARY_SHARE and (asked := contradict(example.question, chance)):
        yield asked


class _Tokenised:
    """Passages as subwords."""

    def __init__(self, passages: Sequence[Text], *, most: int) -> None:
        tokenizer = load_tokenizer(find_folder(DEFAULT_NAME))
        self.inputs = ReaderInputs(tokenizer, ReaderConfig())
        self.passages = passages
        self.most = most
        self.titles = [ids for ids, _ in self.inputs.tokenise([each.title for each in passages])]
        self.texts = self.inputs.tokenise([each.text for each in passages])

    def places(self, row: int, answers: Sequence[str]) -> list[int]:
        """List the first and last subwords of all places where an answer stands."""
        text, spans = self.passages[row].text, self.texts[row][1][: self.most]
        found: list[tuple[int, int]] = []
        for answer in dict.fromkeys(answers):
            at = text.find(answer)
            while at >= 0 and len(found) < MAX_PLACES and answer:
                first = int(np.searchsorted(spans[:, 1], at, side="right"))
                last = int(np.searchsorted(spans[:, 0], at + len(answer), side="left")) - 1
                fits = at + len(answer) <= (spans[-1, 1] if len(spans) else 0)
                fits = fits and first <= last < first + MAX_ANSWER_SUBWORDS
                if fits and _is_whole(text, at, len(answer)):
                    found.append((first, last))
                at = text.find(answer, at + 1)
        return [each for place in dict.fromkeys(found) for each in place]

    def sentences(self, row: int) -> list[int]:
        """Number the sentences that subwords stand in."""
        begins = [span.start for span in split_sentences(self.passages[row].text)]
        spans = self.texts[row][1][: self.most]
        numbers = np.searchsorted(begins, spans[:, 0], side="right") - 1
        return np.clip(numbers, 0, 255).tolist()


def _is_whole(text: str, at: int, length: int) -> bool:
    """Whether a stretch begins and ends with whole words."""
    before, after = text[at - 1 : at], text[at + length : at + length + 1]
    first, last = text[at : at + 1], text[at + length - 1 : at + length]
    return not (before.isalnum() and first.isalnum()) and not (last.isalnum() and after.isalnum())


def _join(
    kept: Sequence[tuple[Example, list[int], list[int]]],
    texts: _Tokenised,
    row_by_passage: dict[Text, int],
) -> ReadingSet:
    asked = texts.inputs.tokenise([each.question for each, _near, _places in kept])
    most = texts.inputs.config.max_question_subwords
    near = np.full((len(kept), NEIGHBOURS), -1, dtype=np.int64)
    for at, (_each, own, _places) in enumerate(kept):
        near[at, : len(own)] = own
    sources = tuple(dict.fromkeys(each.source for each, _near, _places in kept))
    held_out = [is_held_out(each.text, each.text) for each in texts.passages]
    rows = np.array([row_by_passage[each.passage] for each, _near, _places in kept])
    return ReadingSet(
        questions=Ragged.of((ids[:most] for ids, _spans in asked), "<u2"),
        titles=Ragged.of(
            (ids[: texts.inputs.config.max_title_subwords] for ids in texts.titles), "<u2"
        ),
        texts=Ragged.of((ids[: texts.most] for ids, _spans in texts.texts), "<u2"),
        sentences=Ragged.of(map(texts.sentences, range(len(texts.passages))), "|u1"),
        answers=Ragged.of((places for _each, _near, places in kept), "<u2"),
        passage_rows=rows,
        neighbours=near,
        kinds=np.array([each.kind for each, _near, _places in kept], dtype=np.uint8),
        source_ids=np.array([sources.index(each.source) for each, *_ in kept], dtype=np.uint8),
        held_out=np.array(held_out)[rows],
        sources=sources,
    )


def is_held_out(text: str, whole: str) -> bool:
    """Hold out passages by their text, and by any piece that calibration asks about."""
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    own = number % 10_000 < HELD_OUT * 10_000
    return own or any(map(generation.is_held_out, generation.cut_pieces(whole)))


def report(path: Path, packed: ReadingSet) -> None:
    """Print the examples per source."""
    print(f"{path}: {path.stat().st_size / 2**20:.1f} MiB, {len(packed):,} examples,")
    lengths = np.diff(packed.texts.offsets)
    print(f"  {len(lengths):,} passages of {lengths.mean():.0f} subwords")
    for at, source in enumerate(packed.sources):
        own = packed.source_ids == at
        counts = [
            int((own & (packed.kinds == kind)).sum()) for kind in (ANSWERED, UNANSWERED, PAIR)
        ]
        print(f"  {source:24} {counts} {int((own & packed.held_out).sum()):6,} held out")


def _limit(examples: Sequence[Example], limit: int) -> list[Example]:
    taken: Counter[str] = Counter()
    kept = []
    for each in examples:
        taken[each.source] += 1
        if not limit or taken[each.source] <= limit:
            kept.append(each)
    return kept


def _read_zst(path: Path) -> Iterable[dict[str, Any]]:
    command = ["zstd", "-dc", "--long=27", str(path)]
    found = subprocess.run(command, capture_output=True, check=True).stdout
    return map(json.loads, found.splitlines())


def _read_gz(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


if __name__ == "__main__":
    main()
