"""Pack what the reader is trained on: two small files of subwords, no texts.

    python -m benchmarks.reader.pack --carry FOLDER       copy the texts, to be packed elsewhere
    python -m benchmarks.reader.pack [--data ../shared/data] [--processes 2] [--limit 0]

`reading.bin`: questions of squad-train-slice, of the sources in text/reading, of fairytaleqa and of
technical documentation, where `benchmarks.technical.make` has made them (those of held-out programs
for judging alone), each with the passage that answers it; and questions in which a name, number or
word was replaced or turned into its opposite (`benchmarks.citations.unanswerable`), so that their
passage does not answer them; what replaces it stands in the passage or in one beside it, mostly of
its article; and questions of another passage of the article, half of them with a name or number of
this one.
`pairs.bin`: natural pairs, and queries made of passages of other pairs and of Wikipedia
(`benchmarks.reader.queries`).
Passages like the right one are found where training takes place (`train_gpu`). Three in a hundred
passages are held out with all their questions, and those of squad-train-slice that
`benchmarks.citations.calibrate` asks about. Nothing of any dev or test split is read.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import multiprocessing
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.citations.unanswerable import contradict, holds, swap
from benchmarks.generation import pieces
from benchmarks.reader.queries import MadeQuery, count_words, make_query
from benchmarks.technical.make import HELD_SOURCE
from benchmarks.technical.make import OUT as TECHNICAL
from quoth.models.pretrained import DEFAULT_NAME, find_folder, load_tokenizer
from quoth.models.reader.config import ReaderConfig
from quoth.models.reader.inputs import ReaderInputs
from quoth.text.blocks import split_sentences
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
SWAPPED_SHARE, CONTRARY_SHARE, FOREIGN_SHARE = 0.5, 0.3, 0.35
BESIDE = 3
MAX_TEXT_SUBWORDS, MAX_PAIR_SUBWORDS = 400, 176
MAX_ANSWER_SUBWORDS, MAX_PLACES = 40, 6
PAIR_CAPS = {"forum_title": 11_000, "acl": 12_000, "elife": 6_000}
MAX_PAIRS = 9_000  # of any other source
PAIR_WORDS = 150
CARRIED, WRITTEN = "text/technical.jsonl.gz", "text/written"
STORIES, PARAGRAPHS = "text/cited_qa/fairytaleqa.jsonl.gz", "text/paragraphs.jsonl"
NUM_PARAGRAPHS, LEAST_WORDS, PER_ARTICLE = 20_000, 60, 4


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
    """Read, tokenise and pack; or copy what is read."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--carry", type=Path, help="copy texts to this folder")
    parser.add_argument("--out", type=Path, default=CACHE)
    parser.add_argument("--encoder", default=DEFAULT_NAME, help="name of MiniLM, or its folder")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--limit", type=int, default=0, help="examples of a source; 0 for all")
    parser.add_argument("--only", default="", choices=("", "reading", "pairs"))
    given = parser.parse_args()
    if given.carry:
        carry(given.data, given.carry)
        return
    given.out.mkdir(parents=True, exist_ok=True)
    read = {"reading": questions, "pairs": partial(pairs, processes=given.processes)}
    for name in [given.only] if given.only else read:
        began = time.perf_counter()
        examples = _limit(list(read[name](given.data)), given.limit)
        print(f"{name} read after {time.perf_counter() - began:.0f} s", flush=True)
        packed = pack(examples, find_folder(given.encoder), processes=given.processes)
        path = given.out / f"{name}.bin"
        save_reading_set(path, packed)
        report(path, packed)
        print(f"{time.perf_counter() - began:.0f} s", flush=True)


def carry(data: Path, out: Path) -> None:
    """Copy what is read, compressed so that any Python can open it; of articles, paragraphs."""
    names = ["text/pairs.jsonl", *(f"text/reading/{each.stem}" for each in reading_files(data))]
    for name in names:
        _write_gz(out / f"{name}.gz", _decompress(data / f"{name}.zst"))
    found = paragraphs(data)
    lines = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in found)
    _write_gz(out / f"{PARAGRAPHS}.gz", lines.encode())
    kept = ("corpus.jsonl.gz", "queries.jsonl.gz", "qrels/train.tsv.gz")
    for name in (*(f"ir/squad-train-slice/{each}" for each in kept), STORIES):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes((data / name).read_bytes())
    if TECHNICAL.exists():
        (out / CARRIED).write_bytes(TECHNICAL.read_bytes())


def questions(data: Path) -> Iterator[Example]:
    """Read every question with its passage and answers."""
    yield from squad_questions(data / "ir" / "squad-train-slice")
    for path in reading_files(data):
        for row in read_rows(path):
            passage = Text(row.get("title") or "", row["passage"])
            yield Example(row["source"], row["question"], passage, tuple(row["answers"]))
    yield from story_questions(data / STORIES)
    yield from technical_questions(data)
    yield from written_questions(data)


def written_questions(data: Path) -> Iterator[Example]:
    """Read what a language model asked (`benchmarks.reader.write_questions`), if it did."""
    folder = data / WRITTEN if (data / WRITTEN).exists() else CACHE / "written"
    if not (folder / "written.jsonl.gz").exists():
        return
    texts = [Text(row["title"], row["text"]) for row in _read_gz(folder / "asked.jsonl.gz")]
    for row in _read_gz(folder / "written.jsonl.gz"):
        yield Example("written", row["question"], texts[row["text"]], (row["answer"],))


def technical_questions(data: Path) -> Iterator[Example]:
    """Read what was made of documentation, if it was; some of it has no answer."""
    path = data / CARRIED if (data / CARRIED).exists() else TECHNICAL
    for row in _read_gz(path) if path.exists() else ():
        kind = ANSWERED if row["answers"] else UNANSWERED
        passage = Text(row["title"], row["passage"])
        yield Example(row["source"], row["question"], passage, tuple(row["answers"]), kind)


def squad_questions(folder: Path) -> Iterator[Example]:
    """Read the training questions of a collection."""
    rows = {row["_id"]: row for row in _read_gz(folder / "corpus.jsonl.gz")}
    asked = {row["_id"]: row for row in _read_gz(folder / "queries.jsonl.gz")}
    for qid, docid in pieces.read_pairs(folder):
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


def pairs(data: Path, processes: int) -> Iterator[Example]:
    """Read natural pairs, at most so many of a source; queries are made of what is left."""
    rows = list(read_rows(data / "text" / "pairs.jsonl.zst"))
    taken: Counter[str] = Counter()
    known: set[str] = set()
    left = []
    for at in np.random.default_rng(0).permutation(len(rows)):
        row = rows[at]
        text = " ".join(row["passage"].split()[:PAIR_WORDS])
        taken[row["source"]] += 1
        if taken[row["source"]] <= PAIR_CAPS.get(row["source"], MAX_PAIRS):
            known.add(text)
            yield Example(row["source"], row["query"], Text("", text), kind=PAIR)
        else:
            left.append((row["query"], text))
    sources = [each for each in left if each[1] not in known]
    sources += paragraphs(data)
    counts = count_words(text for _title, text in sources)

    def make(at: int) -> MadeQuery | None:
        return make_query(*sources[at], counts, np.random.default_rng([0, at]))

    for made in spread(make, len(sources), processes):
        if made:
            yield Example(made.kind, made.query, Text("", made.passage), kind=PAIR)


def paragraphs(data: Path) -> list[tuple[str, str]]:
    """Read paragraphs of encyclopedia articles, a few of each, with the articles' titles."""
    carried = data / f"{PARAGRAPHS}.gz"
    if carried.exists():
        return [(title, text) for title, text in _read_gz(carried)]
    chance = np.random.default_rng(0)
    return draw_paragraphs(
        data, chance, least_words=LEAST_WORDS, per_article=PER_ARTICLE, count=NUM_PARAGRAPHS
    )


def draw_paragraphs(
    data: Path, chance: np.random.Generator, *, least_words: int, per_article: int, count: int
) -> list[tuple[str, str]]:
    """Draw paragraphs that are long enough, the first words of each, at most some of an article."""
    found = []
    for row in pieces.read_articles(data / "text" / "lm_train.jsonl.zst"):
        own = [part.split()[:PAIR_WORDS] for part in row["text"].split("\n")]
        long = [" ".join(words) for words in own if len(words) >= least_words]
        chosen = chance.permutation(len(long))[:per_article].tolist()
        found += [(row["title"], long[at]) for at in chosen]
    return [found[at] for at in chance.permutation(len(found))[:count].tolist()]


def pack(examples: Sequence[Example], encoder: Path, *, processes: int) -> ReadingSet:
    """Add questions without an answer, and tokenise."""
    passages = list(dict.fromkeys(each.passage for each in examples))
    row_by_passage = {each: row for row, each in enumerate(passages)}
    asked_by_passage: dict[Text, list[Example]] = {}
    for example in examples:
        asked_by_passage.setdefault(example.passage, []).append(example)

    def spoil(at: int) -> list[Example]:
        own = examples[at]
        if own.kind != ANSWERED:
            return []
        row = row_by_passage[own.passage]
        beside = passages[max(0, row - BESIDE) : row + BESIDE + 1]
        others = [each for text in beside if text != own.passage for each in asked_by_passage[text]]
        chance = np.random.default_rng([0, at])
        asked = [
            *_spoil(own, [each.text for each in beside], chance),
            *ask_foreign(own.passage, others, chance),
        ]
        return [Example(own.source, each, own.passage, kind=UNANSWERED) for each in asked]

    spoilt = spread(spoil, len(examples), processes)
    every = [*examples, *(each for own in spoilt for each in own)]
    is_pair = examples[0].kind == PAIR
    most = MAX_PAIR_SUBWORDS if is_pair else MAX_TEXT_SUBWORDS
    texts = _Tokenised(passages, encoder, most=most)

    def places(at: int) -> list[int]:
        return texts.places(row_by_passage[every[at].passage], every[at].answers)

    located = zip(every, spread(places, len(every), processes), strict=True)
    kept = [(each, own) for each, own in located if own or each.kind != ANSWERED]
    sentences = spread(texts.sentences, len(passages), 1 if is_pair else processes)
    return _join(kept, texts, sentences, row_by_passage)


def spread(work: Callable[[int], Any], count: int, processes: int) -> list[Any]:
    """Do something for each number, in several processes."""
    global _work
    if processes < 2:
        return [work(at) for at in range(count)]
    _work = work
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        return pool.map(_do, range(count), chunksize=max(1, count // (8 * processes)))


_work: Callable[[int], Any]


def _do(at: int) -> Any:
    return _work(at)


def _spoil(example: Example, beside: Sequence[str], chance: np.random.Generator) -> Iterator[str]:
    """Ask what the passage does not answer: another name, number or word, or the opposite."""
    if chance.random() < SWAPPED_SHARE:
        texts = [example.passage.text] if chance.random() < 0.5 else beside
        if asked := swap(example.question, texts, chance):
            yield asked
    if chance.random() < CONTRARY_SHARE and (asked := contradict(example.question, chance)):
        yield asked


def ask_foreign(
    passage: Text, others: Sequence[Example], chance: np.random.Generator
) -> Iterator[str]:
    """Ask what another passage of the same article answers and this one does not."""
    fitting = [
        each
        for each in others
        if each.passage.title == passage.title != "" and not holds([passage.text], each.answers)
    ]
    if fitting and chance.random() < FOREIGN_SHARE:
        question = fitting[int(chance.integers(len(fitting)))].question
        swapped = swap(question, [passage.text], chance) if chance.random() < 0.5 else ""
        yield swapped or question


class _Tokenised:
    """Passages as subwords."""

    def __init__(self, passages: Sequence[Text], encoder: Path, *, most: int) -> None:
        self.inputs = ReaderInputs(load_tokenizer(encoder), ReaderConfig())
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
        """Number the sentences that subwords stand in; of pairs nobody asks."""
        if self.most == MAX_PAIR_SUBWORDS:
            return [0] * min(self.most, len(self.texts[row][0]))
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
    kept: Sequence[tuple[Example, list[int]]],
    texts: _Tokenised,
    sentences: Sequence[list[int]],
    row_by_passage: dict[Text, int],
) -> ReadingSet:
    asked = texts.inputs.tokenise([each.question for each, _places in kept])
    most = texts.inputs.config.max_question_subwords
    sources = tuple(dict.fromkeys(each.source for each, _places in kept))
    held_out = [is_held_out(each.text, each.text) for each in texts.passages]
    rows = np.array([row_by_passage[each.passage] for each, _places in kept])
    is_judged = np.array([each.source == HELD_SOURCE for each, _places in kept])
    return ReadingSet(
        questions=Ragged.of((ids[:most] for ids, _spans in asked), "<u2"),
        titles=Ragged.of(
            (ids[: texts.inputs.config.max_title_subwords] for ids in texts.titles), "<u2"
        ),
        texts=Ragged.of((ids[: texts.most] for ids, _spans in texts.texts), "<u2"),
        sentences=Ragged.of(sentences, "|u1"),
        answers=Ragged.of((places for _each, places in kept), "<u2"),
        passage_rows=rows,
        neighbours=np.full((len(kept), 1), -1, dtype=np.int64),
        kinds=np.array([each.kind for each, _places in kept], dtype=np.uint8),
        source_ids=np.array([sources.index(each.source) for each, *_ in kept], dtype=np.uint8),
        held_out=np.array(held_out)[rows] | is_judged,
        sources=sources,
    )


def is_held_out(text: str, whole: str) -> bool:
    """Hold out passages by their text, and by any piece that calibration asks about."""
    number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
    own = number % 10_000 < HELD_OUT * 10_000
    return own or any(map(pieces.is_held_out, pieces.cut_pieces(whole)))


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


def reading_files(data: Path) -> list[Path]:
    """List the files of questions, whether they were carried or not."""
    found = (data / "text" / "reading").glob("*.jsonl.*")
    return sorted(each.with_suffix(".zst") for each in found)


def read_rows(path: Path) -> Iterable[dict[str, Any]]:
    """Read lines of a .gz file, or of a .zst file or the .gz file that was made of it."""
    carried = path.with_suffix(".gz")
    return (
        _read_gz(carried) if carried.exists() else map(json.loads, _decompress(path).splitlines())
    )


def _decompress(path: Path) -> bytes:
    command = ["zstd", "-dc", "--long=27", str(path)]
    return subprocess.run(command, capture_output=True, check=True).stdout


def _write_gz(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, compresslevel=5))


def _read_gz(path: Path) -> Iterator[Any]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        yield from map(json.loads, stream)


if __name__ == "__main__":
    main()
