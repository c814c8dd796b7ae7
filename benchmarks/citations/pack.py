"""Pack questions with their passages and reference answers, small enough to travel.

    python -m benchmarks.citations.pack [--passages 3] [--count 300]

| set | passages | answerable |
|---|---|---|
| asqa | the first of those that come with the question, in their order | all |
| nq | the gold passage and BM25's neighbours among the other questions' passages | all |
| quotesum | the sources that annotators quoted from, 2 to 6 | all |
| clapnq | the question's passage and neighbours as in nq | half |
| nq-mini | BM25's best of the collection | as many as are not |
| squad | BM25's best of squad-dev | half |

The gold passage stands at a place that a seed draws. Unanswerable questions of nq-mini and squad
are those whose own passage does not answer them; that another one does cannot be ruled out. Writes
benchmarks/.cache/citations/SET.jsonl.gz.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

CACHE = Path("benchmarks/.cache/citations")
_QUOTATION = re.compile(r"\[ (\d+) (.*?) \]")


@dataclass(frozen=True)
class Question:
    """A question, what it is to be answered from, and what the answer should hold."""

    set: str
    qid: str
    text: str
    titles: tuple[str, ...]
    passages: tuple[str, ...]
    short_answers: tuple[tuple[str, ...], ...] = ()
    long_answers: tuple[str, ...] = ()
    quoted: Mapping[str, str] | None = None
    """What the reference quotes from each passage, where annotators marked it."""
    is_answerable: bool = True


@dataclass(frozen=True)
class Text:
    """A passage with its title."""

    title: str
    text: str


def main() -> None:
    """Pack the sets that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--passages", type=int, default=3)
    parser.add_argument("--count", type=int, default=300, help="questions of a set at most")
    parser.add_argument("--out", type=Path, default=CACHE)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.sets.split(","):
        questions = list(SETS[name](given))
        path = given.out / f"{name}.jsonl.gz"
        save_questions(path, questions)
        answerable = sum(each.is_answerable for each in questions)
        held = np.mean([_holds_answer(each) for each in questions if each.short_answers] or [0.0])
        print(
            f"{name}: {len(questions)} questions, {answerable} answerable, a short answer stands"
            f" in the passages of {held:.0%}, {path.stat().st_size / 1e6:.2f} MB",
            flush=True,
        )


def save_questions(path: Path, questions: Sequence[Question]) -> None:
    """Write questions, one line each."""
    with gzip.open(path, "wt") as stream:
        for question in questions:
            stream.write(json.dumps(asdict(question), ensure_ascii=False) + "\n")


def open_questions(path: Path) -> list[Question]:
    """Read questions."""
    with gzip.open(path, "rt") as stream:
        return [_question(json.loads(line)) for line in stream]


def _question(record: dict[str, Any]) -> Question:
    short = tuple(tuple(own) for own in record["short_answers"])
    tuples = {name: tuple(record[name]) for name in ("titles", "passages", "long_answers")}
    return Question(**{**record, **tuples, "short_answers": short})


def asqa(given: argparse.Namespace) -> Iterator[Question]:
    """Take the passages in the order in which they were retrieved."""
    records = _read(given.data / "text/cited_qa/asqa_dev300_docs.jsonl.gz")[: given.count]
    for record in records:
        own = [Text(doc["title"], doc["text"]) for doc in record["docs"][: given.passages]]
        yield Question(
            *("asqa", record["id"], record["question"], *_columns(own)),
            short_answers=tuple(tuple(pair["short_answers"]) for pair in record["qa_pairs"]),
            long_answers=tuple(each["long_answer"] for each in record["annotations"]),
        )


def nq(given: argparse.Namespace) -> Iterator[Question]:
    """Hide each gold passage among its neighbours."""
    everything = _read(given.data / "text/cited_qa/nq_oracle.jsonl.gz")
    chosen = _sample(everything, given.count)
    texts = [Text(each["docs"][0]["title"], each["docs"][0]["text"]) for each in everything]
    golds = [Text(each["docs"][0]["title"], each["docs"][0]["text"]) for each in chosen]
    passages = hide([each["question"] for each in chosen], golds, texts, k=given.passages)
    for number, (record, own) in enumerate(zip(chosen, passages, strict=True)):
        yield Question(
            *("nq", str(number), record["question"], *_columns(own)),
            short_answers=(tuple(record["answers"]),),
        )


def quotesum(given: argparse.Namespace) -> Iterator[Question]:
    """Take the sources as they are; all references of a question count."""
    by_qid: dict[str, list[dict[str, Any]]] = {}
    for record in _read(given.data / "text/cited_qa/quotesum_dev.jsonl.gz"):
        by_qid.setdefault(record["qid"], []).append(record)
    for qid, records in list(by_qid.items())[: given.count]:
        first = records[0]
        places = [at for at in range(1, 9) if first[f"source{at}"]]
        texts = [Text(first[f"title{at}"], first[f"source{at}"]) for at in places]
        short = [_unmark(first[f"short_ans_{at}"]) for at in places if first[f"short_ans_{at}"]]
        yield Question(
            *("quotesum", qid, first["question"], *_columns(texts)),
            short_answers=tuple((each,) for each in dict.fromkeys(short)),
            long_answers=tuple(_unmark(each["summary"]) for each in records),
            quoted=_quoted(first["summary"], places),
        )


def clapnq(given: argparse.Namespace) -> Iterator[Question]:
    """Hide each passage among its neighbours; half of the passages hold no answer."""
    everything = _read(given.data / "text/cited_qa/clapnq_dev.jsonl.gz")
    kinds = [[each for each in everything if each["answerable"] is kind] for kind in (True, False)]
    chosen = [each for own in kinds for each in _sample(own, given.count // 2)]
    texts = [Text(each["passages"][0]["title"], each["passages"][0]["text"]) for each in everything]
    golds = [Text(each["passages"][0]["title"], each["passages"][0]["text"]) for each in chosen]
    passages = hide([each["input"] for each in chosen], golds, texts, k=given.passages)
    for record, own in zip(chosen, passages, strict=True):
        yield Question(
            *("clapnq", record["id"], record["input"], *_columns(own)),
            long_answers=tuple(each["answer"] for each in record["output"] if each["answer"]),
            is_answerable=record["answerable"],
        )


def nq_mini(given: argparse.Namespace) -> Iterator[Question]:
    """Search the collection, for questions with and without an answer."""
    yield from _searched("nq-mini", given)


def squad(given: argparse.Namespace) -> Iterator[Question]:
    """Search the collection, for questions with and without an answer."""
    yield from _searched("squad-dev", given)


def _searched(name: str, given: argparse.Namespace) -> Iterator[Question]:
    folder = given.data / "ir" / name
    texts = [Text(each["title"], each["text"]) for each in _read(folder / "corpus.jsonl.gz")]
    half = given.count // 2
    answered = [each for each in _read(folder / "queries.jsonl.gz") if each.get("answers")]
    chosen = [*_sample(answered, half), *_sample(_read(folder / "unanswerable.jsonl.gz"), half)]
    found = search([each["text"] for each in chosen], texts, k=given.passages)
    for record, own in zip(chosen, found, strict=True):
        answers = tuple(record.get("answers", ()))
        yield Question(
            *(name.removesuffix("-dev"), record["_id"], record["text"], *_columns(own)),
            short_answers=(answers,) if answers else (),
            is_answerable=bool(answers),
        )


SETS: dict[str, Callable[[argparse.Namespace], Iterator[Question]]] = {
    "asqa": asqa,
    "nq": nq,
    "quotesum": quotesum,
    "clapnq": clapnq,
    "nq-mini": nq_mini,
    "squad": squad,
}


def search(queries: Sequence[str], texts: Sequence[Text], *, k: int) -> list[list[Text]]:
    """Find the best passages of each query with Quoth's BM25."""
    from quoth.engine.engine import Engine
    from quoth.records import Document, Query

    unique = list(dict.fromkeys(texts))
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "c.quoth") as engine:
        engine.add_documents(
            Document(str(at), {"title": (each.title,), "text": (each.text,)})
            for at, each in enumerate(unique)
        )
        asked = [Query(str(at), _plain(text)) for at, text in enumerate(queries)]
        hits = engine.run(asked, k=k, searcher="lexical").hits
    return [[unique[int(hit.docid)] for hit in hits[query.qid]] for query in asked]


def hide(
    queries: Sequence[str], golds: Sequence[Text], texts: Sequence[Text], *, k: int
) -> list[list[Text]]:
    """Put each gold passage among the best others, at a place drawn by a seed."""
    chance = np.random.default_rng(0)
    hidden = []
    for gold, found in zip(golds, search(queries, texts, k=k), strict=True):
        others = [each for each in found if each != gold][: k - 1]
        at = int(chance.integers(len(others) + 1))
        hidden.append([*others[:at], gold, *others[at:]])
    return hidden


def _quoted(summary: str, places: Sequence[int]) -> dict[str, str]:
    """Join what a marked summary quotes from each source, by its place from 0.

    >>> _quoted("It is [ 3 blue ] and [ 3 wide ] , [ 9 odd ]", [1, 3])
    {'1': 'blue wide'}
    """
    quoted: dict[str, str] = {}
    for source, text in _QUOTATION.findall(summary):
        if int(source) in places:
            at = str(places.index(int(source)))
            quoted[at] = f"{quoted.get(at, '')} {text}".strip()
    return quoted


def _unmark(summary: str) -> str:
    """Drop the marks of quotations.

    >>> _unmark("It is [ 3 blue ] .")
    'It is blue .'
    """
    return _QUOTATION.sub(r"\2", summary)


def _columns(texts: Sequence[Text]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(each.title for each in texts), tuple(each.text for each in texts)


def _holds_answer(question: Question) -> float:
    text = " ".join(question.passages).lower()
    return float(any(each.lower() in text for own in question.short_answers for each in own))


def _plain(text: str) -> str:
    return " ".join(re.findall(r"\w+", text))


def _sample(records: Sequence[dict[str, Any]], count: int) -> list[dict[str, Any]]:
    chosen = np.random.default_rng(0).permutation(len(records))[:count]
    return [records[at] for at in np.sort(chosen)]


def _read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as stream:
        return [json.loads(line) for line in stream]


if __name__ == "__main__":
    main()
