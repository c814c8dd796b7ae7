"""Fit how much each sign of a sentence counts, the reader's and nearness to the question.

    python -m benchmarks.citations.sentence_signs gather --reader FOLDER --out FILE
    python -m benchmarks.citations.sentence_signs fit FILE [--save FOLDER]

Three kinds of questions, none of a development or test set, count alike:

- *held out*: questions of the sources that readers are trained on, held out from training, with
  passages that were searched for (`calibrate --pack`);
- *documentation*: questions that `benchmarks.technical` makes of manuals by their structure, which
  the shipped reader was not trained on, put to what BM25 finds among thousands of such passages;
- *pages*: more of these, put to the passages that `quoth ask` reads of five pages that BM25 finds:
  the product's own path but for vectors.

Weights are fitted so that the softmax over all sentences gives those that answer the highest
probability, judged by five folds, and written to results/sentence_signs.json. `TRIED` are signs
that were put beside those that ship (`tried_signs`). `--save` puts the reader's weights into its
folder; nearness has its own setting, `answer.nearness_weight`.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import random
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.citations.calibrate import Numbers
from benchmarks.citations.held_out import NAME, standings_of
from benchmarks.citations.pack import CACHE, open_questions
from benchmarks.citations.tried_signs import tried_signs
from benchmarks.reader.signs import fit_weights as fit_groups
from benchmarks.technical.make import OUT as TECHNICAL
from quoth.answer.nearness import EncodeSentences, Sentence, sentence_cosines
from quoth.answer.reading import (
    MOST_ENCODED,
    SIGNS,
    open_weights,
    save_weights,
    sentence_signs,
    standing_of,
    with_the_one_before,
)
from quoth.engine.engine import Engine
from quoth.engine.models import LoadedModels
from quoth.evaluation.significance import mean_interval
from quoth.models.reader.inputs import TitledText
from quoth.models.reader.reader import Reader
from quoth.records import Document, SearchRequest

RESULTS = Path(__file__).parent / "results" / "sentence_signs.json"
NEARNESS = "nearness"
ALONE = "nearness of the sentence alone"
SHIPPED = (*SIGNS, NEARNESS)
DIRECTIONS = {"evidence": 1, "relevance": 1, "silence": -1, "standing": 1}
"""Which way a sign may speak; one that would speak the other way weighs nothing."""

TRIED = (
    "coverage",
    "coverage with the one before",
    "coverage of the heading",
    "coverage of the passage",
    "kind of answer",
    "item",
    "question",
    "long",
    "short",
    "unfinished",
)
ALL_SIGNS = (*SHIPPED, ALONE, *TRIED)
LAST = {"spans": 0.2286, "evidence": 0.1135, "relevance": 0.0141, "silence": -0.0612, ALONE: 1.84}
"""The weights of the release before."""

KINDS = ("held out", "documentation", "pages")
PAGE_SEED = 7
PASSAGES = 30_000  # of documentation, about half of which are distinct
FOLDS = 5


class Asked(NamedTuple):
    """What is known of the sentences read for one question."""

    kind: str
    signs: Numbers  # (N, F)
    gold: NDArray[np.bool_]  # (N,)


def main() -> None:
    """Gather signs, or fit weights to them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    gathering = commands.add_parser("gather")
    gathering.add_argument("--reader", type=Path, required=True)
    gathering.add_argument("--out", type=Path, required=True)
    gathering.add_argument("--each", type=int, default=120, help="questions of a technical source")
    gathering.add_argument("--seed", type=int, default=5)
    fitting = commands.add_parser("fit")
    fitting.add_argument("signs", type=Path)
    fitting.add_argument("--save", type=Path, help="folder of the reader")
    given = parser.parse_args()
    if given.command == "fit":
        fit(open_asked(given.signs), given.save)
        return
    reader, encode = Reader.load(str(given.reader)), LoadedModels().sentence_encoder()
    weights = np.array(open_weights(given.reader))
    save_asked(given.out, list(gather(reader, encode, weights, each=given.each, seed=given.seed)))


# ------------------------------------------------------------------------------------- gathering
class Read(NamedTuple):
    """A passage that is read for a question."""

    title: str
    text: str
    standing: float


class Posed(NamedTuple):
    """A question with what is read for it, and its answers."""

    kind: str
    text: str
    read: Sequence[Read]
    answers: Sequence[str]


def gather(
    reader: Reader, encode: EncodeSentences, weights: Numbers, *, each: int, seed: int
) -> Iterator[Asked]:
    """Read the passages of every question; questions whose answer was not read are left out."""
    questions = [
        *held_out_questions(),
        *technical_questions(each, seed),
        *page_questions(each * 2 // 3),
    ]
    for at, posed in enumerate(questions, start=1):
        if at % 50 == 0:
            print(f"{at} of {len(questions)} questions", flush=True)
        passages = [own.text for own in posed.read]
        if any(is_held(posed.answers, text) for text in passages):
            readings = reader.read(
                posed.text, [TitledText(own.title, own.text) for own in posed.read]
            )
            standings = [own.standing for own in posed.read]
            sentences, signs = sentence_signs(passages, readings, standings=standings)
            near = nearness_of(posed.text, sentences, signs @ weights, encode=encode)
            tried = tried_signs(posed.text, passages, [own.title for own in posed.read])
            columns = np.column_stack([signs, near, *(tried[name] for name in TRIED)])
            gold = [is_held(posed.answers, own.text) for own in sentences]
            yield Asked(posed.kind, columns, np.array(gold, dtype=np.bool_))


def nearness_of(
    question: str, sentences: Sequence[Sentence], scores: Numbers, *, encode: EncodeSentences
) -> Numbers:  # (N, 2)
    """Return the cosines of the best sentences, with the one before and alone; as when asked."""
    best = np.argsort(-np.nan_to_num(scores, neginf=-1e9), kind="stable")[:MOST_ENCODED].tolist()
    found = np.zeros((len(sentences), 2))
    alone = [sentences[at] for at in best]
    joined = [with_the_one_before(sentences, at) for at in best]
    for column, texts in enumerate((joined, alone)):
        own = sentence_cosines(question, texts, encode=encode)
        found[:, column] = own.min(initial=1.0)
        found[best, column] = own
    return found


def held_out_questions() -> Iterator[Posed]:
    """Yield questions with their passages and answers."""
    for question in open_questions(CACHE / f"{NAME}.jsonl.gz"):
        if question.is_answerable and question.set != "documented":
            parts = (question.titles, question.passages, standings_of(question))
            read = [Read(*each) for each in zip(*parts, strict=True)]
            answers = [each for own in question.short_answers for each in own]
            yield Posed("held out", question.text, read, answers)


def technical_questions(each: int, seed: int) -> Iterator[Posed]:
    """Yield questions of documentation with the passages that BM25 finds for them."""
    chance = random.Random(seed)
    known = known_questions()
    asked = sample_questions(known, each, chance)
    documents = documents_of(asked, chance.sample(known, PASSAGES))
    with open_made(documents) as engine:
        for row in asked:
            hits = engine.search(row["question"], k=5, searcher="lexical", syntax=False)
            found = [own.passage.text for own in hits if own.passage is not None]
            read = [Read("", text, standing_of(rank)) for rank, text in enumerate(found, start=1)]
            yield Posed("documentation", row["question"], read, row["answers"])


def page_questions(each: int) -> Iterator[Posed]:
    """Yield other questions of documentation with what `quoth ask` reads of the pages found."""
    known = known_questions()
    asked = sample_questions(known, each, random.Random(PAGE_SEED))
    with open_made(pages_of([*known, *asked])) as engine:
        for row in asked:
            request = SearchRequest(
                row["question"], k=5, searcher="lexical", syntax=False, feedback=False
            )
            hits = [own.hit for own in engine.find(request).hits]
            passages = engine._passages(row["question"], hits, "lexical")
            read = [Read(own.title, own.passage.text, own.standing) for own in passages]
            yield Posed("pages", row["question"], read, row["answers"])


def known_questions() -> list[dict[str, Any]]:
    """Read the questions that were made of documentation and have an answer."""
    with gzip.open(TECHNICAL, "rt", encoding="utf-8") as lines:
        return [row for row in map(json.loads, lines) if row["answers"]]


def sample_questions(
    known: Sequence[dict[str, Any]], each: int, chance: random.Random
) -> list[dict[str, Any]]:
    """Draw so many questions of each source."""
    sources = sorted({row["source"] for row in known})
    return [
        row
        for source in sources
        for row in chance.sample([own for own in known if own["source"] == source], each)
    ]


@contextmanager
def open_made(documents: Iterable[Document]) -> Iterator[Engine]:
    """Open a collection of documents that is gone afterwards."""
    with tempfile.TemporaryDirectory() as scratch, Engine.open(Path(scratch) / "notes") as engine:
        engine.add_documents(documents)
        yield engine


def pages_of(rows: Sequence[dict[str, Any]]) -> Iterator[Document]:
    """Put the passages of each page together again, the last version of each."""
    texts: dict[str, dict[str, str]] = {}
    for row in rows:
        texts.setdefault(row["title"], {})[_opening(row["passage"])] = row["passage"]
    for number, (title, own) in enumerate(texts.items()):
        yield Document(str(number), {"title": (title,), "text": tuple(own.values())})


def documents_of(
    asked: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]]
) -> Iterator[Document]:
    """Make a document of each passage; of others, one version, as each question cuts its own."""
    seen: set[str] = set()
    for at, row in enumerate([*asked, *others]):
        opening = _opening(row["passage"])
        if at < len(asked) or opening not in seen:
            name = hashlib.sha256(row["passage"].encode()).hexdigest()[:16]
            yield Document(name, {"text": (row["passage"],)})
        seen.add(opening)


def _opening(passage: str) -> str:
    return "".join(passage.split())[:60]


def is_held(answers: Sequence[str], sentence: str) -> bool:
    """Whether a sentence holds a short answer, or begins one that is longer than it.

    >>> is_held(["a barn owl"], "It is a Barn Owl."), is_held(["An owl. It flies."], "An owl.")
    (True, True)
    >>> is_held(["owls"], "An owl."), is_held(["a.b"], "a.")
    (False, False)
    """
    own = " ".join(sentence.casefold().split())
    wanted = (" ".join(each.casefold().split()) for each in answers)
    return any(each in own or (len(own) > 5 and each.startswith(own)) for each in wanted if each)


def save_asked(path: Path, asked: Sequence[Asked]) -> None:
    """Keep what was gathered."""
    np.savez_compressed(
        path,
        kinds=np.array([each.kind for each in asked]),
        lengths=np.array([len(each.gold) for each in asked]),
        signs=np.concatenate([each.signs for each in asked]),
        gold=np.concatenate([each.gold for each in asked]),
    )


def open_asked(path: Path) -> list[Asked]:
    """Read what was gathered, sentences that no subword was read of left out."""
    with np.load(path) as arrays:
        ends = np.cumsum(arrays["lengths"])[:-1]
        parts = (np.split(arrays[name], ends) for name in ("signs", "gold"))
        asked = [
            Asked(kind, signs[np.isfinite(signs).all(1)], gold[np.isfinite(signs).all(1)])
            for kind, signs, gold in zip(arrays["kinds"].tolist(), *parts, strict=True)
        ]
        return [each for each in asked if each.gold.any()]


# --------------------------------------------------------------------------------------- fitting
def fit(asked: Sequence[Asked], folder: Path | None) -> None:
    """Judge by folds, write the results, and keep weights fitted to all questions."""
    before = np.array([LAST.get(name, 0.0) for name in ALL_SIGNS])
    fitted = {
        "as before": [before] * len(asked),
        "fitted": by_folds(asked, SHIPPED),
        **{f"{name} left out": by_folds(asked, without(name)) for name in ("standing", NEARNESS)},
        "nearness alone instead": by_folds(asked, (*without(NEARNESS), ALONE)),
        "nearness alone beside": by_folds(asked, (*SHIPPED, ALONE)),
        **{f"with {name}": by_folds(asked, (*SHIPPED, name)) for name in TRIED},
    }
    rows = [
        {"weights": name, "kind": kind, **judge(asked, weights, kind)}
        for name, weights in fitted.items()
        for kind in KINDS
    ]
    weights = fit_weights(asked, SHIPPED)[: len(SHIPPED)]
    content = {
        "before": LAST,
        "fitted": dict(zip(SHIPPED, np.round(weights, 4).tolist(), strict=True)),
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps(content, indent=1))
    if folder:
        save_weights(folder, weights[:-1].tolist())


def without(name: str) -> tuple[str, ...]:
    """Return the signs that ship but one."""
    return tuple(each for each in SHIPPED if each != name)


def by_folds(asked: Sequence[Asked], used: Sequence[str]) -> list[Numbers]:
    """Fit weights for each question to those of the other folds."""
    own = [
        fit_weights([each for at, each in enumerate(asked) if at % FOLDS != fold], used)
        for fold in range(FOLDS)
    ]
    return [own[at % FOLDS] for at in range(len(asked))]


def fit_weights(asked: Sequence[Asked], used: Sequence[str]) -> Numbers:  # (F,)
    """Fit weights; all kinds count alike, signs that are not used weigh nothing."""
    kept = list(used)
    while True:
        found = _fit_freely(asked, kept)
        wrong = {name: found[ALL_SIGNS.index(name)] * DIRECTIONS.get(name, 0) for name in kept}
        worst = min(wrong, key=lambda name: wrong[name])
        if wrong[worst] >= 0.0:
            return found
        kept.remove(worst)


def _fit_freely(asked: Sequence[Asked], used: Sequence[str]) -> Numbers:  # (F,)
    columns = [ALL_SIGNS.index(name) for name in used]
    counts = Counter(each.kind for each in asked)
    found = np.zeros(len(ALL_SIGNS))
    found[columns] = fit_groups(
        np.repeat(np.arange(len(asked)), [len(each.gold) for each in asked]),
        np.concatenate([each.signs[:, columns] for each in asked]).astype(np.float64),
        np.concatenate([each.gold for each in asked]),
        np.array([1.0 / counts[each.kind] / len(counts) for each in asked]),
    )
    return found


def judge(asked: Sequence[Asked], weights: Sequence[Numbers], kind: str) -> dict[str, Any]:
    """Return how often the best sentence answers, one of the best three does, and how likely."""
    best, three, likelihoods = [], [], []
    for each, own in zip(asked, weights, strict=True):
        if each.kind == kind:
            scores = each.signs @ own
            order = np.argsort(-scores, kind="stable")
            best.append(float(each.gold[order[0]]))
            three.append(float(each.gold[order[:3]].any()))
            chances = np.exp(scores - scores.max())
            likelihoods.append(float(np.log(chances[each.gold].sum() / chances.sum())))
    interval = mean_interval(best)
    return {
        "questions": len(best),
        "best": round(float(np.mean(best)), 4),
        "low": round(interval.low, 4),
        "high": round(interval.high, 4),
        "best_three": round(float(np.mean(three)), 4),
        "log_likelihood": round(float(np.mean(likelihoods)), 4),
    }


if __name__ == "__main__":
    main()
