"""Compare who words an answer: the reader's sentences, the language model, or it guided by him.

    python -m benchmarks.citations.guide --pack                       # held-out training questions
    python -m benchmarks.citations.guide --read [--reader FOLDER]     # what a reader says of them
    python3 -m benchmarks.citations.guide --fit --base FOLDER --model FOLDER [--limit 160]
    python3 -m benchmarks.citations.guide --base FOLDER --model FOLDER --strength 1 --out OUT.json

Questions of squad-train-slice and of the sources in text/reading about passages that neither the
reader nor the language model was trained on, each with its passage and four that BM25 finds for it.
Every second question fits the strength of guidance (`answer.guidance`): the least at which most
answers would begin in a sentence that holds a short answer. The others are answered and judged,
abstaining switched off, with 95 % intervals of the difference to the reader's sentences by 2,000
samples. Nothing of any dev or test set is read.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch

from benchmarks.citations.answers import short_answer_recall, word_f1
from benchmarks.citations.cosines import encode_by
from benchmarks.citations.pack import CACHE, Question, open_questions, save_questions
from quoth.answer.answerer import Answerer, AnswerSettings
from quoth.answer.cite import Piece, cite
from quoth.answer.config import AnswerConfig, DecodingConfig
from quoth.answer.guidance import Guide, best_passages
from quoth.answer.nearness import (
    EncodeSentences,
    Sentence,
    sentence_cosines,
    sentences_of,
)
from quoth.answer.reading import Findings
from quoth.models.dynamic_lm.dynamic_lm import open_dynamic_lm
from quoth.records import Answer, Passage, Span
from quoth.vocabulary.dynamic import Candidate

QUESTIONS, FINDINGS = "guided.jsonl.gz", "guided-findings.json.gz"
STRENGTHS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
NUM_PASSAGES = 5
PER_SOURCE = 40
SAMPLES = 2_000
READ_AT_ONCE = 16
RULES = AnswerConfig(threshold=1.0)

Records = list[dict[str, Any]]


def main() -> None:
    """Pack, read, or write and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pack", action="store_true")
    parser.add_argument("--read", action="store_true")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--questions", type=Path, default=CACHE)
    parser.add_argument("--reader", default="reader", help="folder, or the shipped one")
    parser.add_argument("--base", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--strength", type=float, default=AnswerConfig().guidance)
    parser.add_argument("--limit", type=int, default=0, help="questions; 0 for all")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    path = given.questions / QUESTIONS
    if given.pack:
        given.questions.mkdir(parents=True, exist_ok=True)
        save_questions(path, list(held_out_questions(given.data)))
        return
    questions = open_questions(path)
    if given.read:
        with gzip.open(given.questions / FINDINGS, "wt") as stream:
            json.dump(list(read_all(questions, given.reader)), stream)
        return
    with gzip.open(given.questions / FINDINGS, "rt") as stream:
        read = json.load(stream)
    order = np.random.default_rng(6).permutation(len(questions))
    chosen = [at for at in order.tolist() if at % 2 == (not given.fit)][: given.limit or None]
    questions, read = [questions[at] for at in chosen], [read[at] for at in chosen]
    if given.fit:
        report = fit(questions, read, given)
    else:
        report = compare(questions, read, write_all(questions, read, given))
    print(json.dumps(report, indent=1), flush=True)
    if given.out:
        given.out.write_text(json.dumps(report, indent=1) + "\n")


def held_out_questions(data: Path) -> Iterator[Question]:
    """Put held-out questions to their passage and its neighbours, in an order drawn by a seed."""
    from benchmarks.generation import pack

    chance = np.random.default_rng(5)
    sources = [pack.squad_questions(data / "ir" / "squad-train-slice")]
    sources += [
        pack.reading_questions(data / "text" / "reading" / f"{name}.jsonl.zst")
        for name in pack.READING
    ]
    for name, (questions, pieces) in zip(("squad", *pack.READING), sources, strict=True):
        held = {each.docid for each in pieces if pack.is_held_out(each.text)}
        asked = [each for each in questions if each[2] in held]
        records = pack.make_records(asked, pieces)
        kept = [each for each in records if pack.is_held_out(each.passage)]
        chosen = chance.permutation(len(kept))[: PER_SOURCE * (4 if name == "squad" else 1)]
        for record in (kept[at] for at in chosen):
            near = [each for each in record.distractors if each != record.passage]
            passages = [record.passage, *near[: NUM_PASSAGES - 1]]
            order = chance.permutation(len(passages))
            yield Question(
                *(name, record.question, record.question, ("",) * len(passages)),
                tuple(passages[at] for at in order),
                short_answers=(record.answers,),
            )


def read_all(questions: Sequence[Question], name: str) -> Iterator[dict[str, Any]]:
    """Write down what a reader finds, how it answers, and how near each sentence is."""
    from quoth.answer.reading_answerer import FittedReader, ReadingAnswerer, TitledPassage
    from quoth.models.glow.plain import open_encoder
    from quoth.models.pretrained import DEFAULT_NAME, find_shipped

    folder = Path(name) if Path(name).is_dir() else find_shipped(name)
    encoder = open_encoder(DEFAULT_NAME)
    answerer = ReadingAnswerer(
        FittedReader.open(folder),
        AnswerConfig(threshold=1.0),
        encode=lambda texts: encoder.encode_queries(texts).vectors,
    )
    for at in range(0, len(questions), READ_AT_ONCE):
        own = questions[at : at + READ_AT_ONCE]
        asked = [each.text for each in own]
        passages = [list(map(TitledPassage, passages_of(each))) for each in own]
        found = answerer.find(asked, passages)
        answers = answerer.answer_found(asked, passages, found)
        encode = partial(_found, encode=lambda texts: encoder.encode_queries(texts).vectors)
        yield from map(encode, own, found, answers)


def _found(
    question: Question, findings: Findings, answer: Answer, *, encode: EncodeSentences
) -> dict[str, Any]:
    """Write down what was found for one question."""
    sentences = sentences_of(question.passages)
    cosines = sentence_cosines(question.text, sentences, encode=encode)
    near = zip(sentences, cosines.tolist(), strict=True)
    return {
        "answer": answer.text,
        "sentences": [
            [each.passage, each.span.start, each.span.end] for each in findings.sentences
        ],
        "probabilities": findings.probabilities.round(7).tolist(),
        "spans": [[each.start, each.end] if each else None for each in findings.spans],
        "cosines": {each.text: round(cosine, 5) for each, cosine in near},
    }


def findings_of(question: Question, record: Mapping[str, Any]) -> Findings:
    """Read what was written down."""
    sentences = tuple(
        Sentence(passage, Span(start, end), question.passages[passage][start:end])
        for passage, start, end in record["sentences"]
    )
    spans = tuple(Span(*each) if each else None for each in record["spans"])
    return Findings(sentences, np.array(record["probabilities"]), spans, (), 0.0, 0.0)


def open_answerer(
    questions: Sequence[Question], read: Records, given: argparse.Namespace
) -> Answerer:
    """Open the language model to write answers."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = getattr(torch, given.dtype)
    model = open_dynamic_lm(given.model, base=given.base, device=device, dtype=dtype)
    model.network.merge()
    settings = AnswerSettings(answer=RULES, decoding=RULES.for_answering(DecodingConfig()))
    cosines = {each.text: record["cosines"] for each, record in zip(questions, read, strict=True)}
    return Answerer(model, settings, encode=encode_by(cosines))


def fit(questions: Sequence[Question], read: Records, given: argparse.Namespace) -> dict[str, Any]:
    """Find how many answers would begin in a sentence that holds a short answer, per strength."""
    answerer = open_answerer(questions, read, given)
    found = []
    for question, record in zip(questions, read, strict=True):
        findings = findings_of(question, record)
        chosen = best_passages(findings, most=RULES.written_passages)
        passages = [passages_of(question)[at] for at in chosen]
        guide = Guide.of(findings, chosen, strength=1.0)
        vocabulary, scores, bonuses = answerer.first_phrases(question.text, passages, guide)
        best = [int((scores + strength * bonuses).argmax()) for strength in STRENGTHS]
        right = {
            at: holds_answer(question, vocabulary.candidates[at], passages) for at in set(best)
        }
        found.append([right[at] for at in best])
        if len(found) % 10 == 0:
            print(len(found), np.mean(found, axis=0).round(3).tolist(), flush=True)
    shares = np.mean(found, axis=0)
    best_strength = STRENGTHS[int(shares.argmax())]
    return {
        "questions": len(found),
        "right": dict(zip(map(str, STRENGTHS), shares.round(4).tolist(), strict=True)),
        "best": best_strength,
    }


def holds_answer(question: Question, phrase: Candidate, passages: Sequence[Passage]) -> bool:
    """Whether a phrase stands in a sentence that holds a short answer."""
    sentences = sentences_of([each.text for each in passages])
    own = [
        sentence.text
        for sentence in sentences
        for source in phrase.sources
        if sentence.passage == source.passage
        and sentence.span.start <= source.span.start < sentence.span.end
    ]
    return any(short_answer_recall(each, question.short_answers) > 0 for each in own)


def write_all(
    questions: Sequence[Question], read: Records, given: argparse.Namespace
) -> dict[str, list[str]]:
    """Let the language model write alone, and guided."""
    answerer = open_answerer(questions, read, given)
    texts: dict[str, list[str]] = {"unguided": [], "guided": []}
    for at in range(0, len(questions), given.batch):
        own = questions[at : at + given.batch]
        asked = [each.text for each in own]
        answers = answerer.answer(asked, [passages_of(each) for each in own])
        texts["unguided"] += [each.text for each in answers]
        found = [findings_of(*each) for each in zip(own, read[at : at + given.batch], strict=True)]
        texts["guided"] += guided(answerer, own, found, strength=given.strength)
        done = compare(questions[: at + len(own)], read[: at + len(own)], texts)["systems"]
        print(at + len(own), {name: each["judged"] for name, each in done.items()}, flush=True)
    return texts


def guided(
    answerer: Answerer,
    questions: Sequence[Question],
    found: Sequence[Findings],
    *,
    strength: float,
) -> list[str]:
    """Answer as `answer.wording = written` does."""
    chosen = [best_passages(each, most=RULES.written_passages) for each in found]
    passages = [
        [passages_of(question)[at] for at in own]
        for question, own in zip(questions, chosen, strict=True)
    ]
    guides = [Guide.of(*each, strength=strength) for each in zip(found, chosen, strict=True)]
    pieces: list[list[Piece]] = [[] for _question in questions]
    asked = [each.text for each in questions]
    for number, piece in answerer.write(asked, passages, guides=guides):
        pieces[number].append(piece)
    return [cite(own, texts).text for own, texts in zip(pieces, passages, strict=True)]


def compare(
    questions: Sequence[Question], read: Records, texts: Mapping[str, Sequence[str]]
) -> dict[str, Any]:
    """Judge the answers of all systems."""
    systems = {"reader": [each["answer"] for each in read], **texts}
    scored = {name: judge(questions, own) for name, own in systems.items()}
    table = {
        name: {
            "judged": [round(float(each), 4) for each in own.mean(0)],
            "difference": [_interval(column) for column in (own - scored["reader"]).T[:2]],
        }
        for name, own in scored.items()
    }
    examples = [
        {"question": each.text, "short": each.short_answers[0][0]}
        | {name: own[at] for name, own in systems.items()}
        for at, each in enumerate(questions[:12])
    ]
    return {
        "columns": ["em", "f1", "words"],
        "questions": len(questions),
        "systems": table,
        "examples": examples,
    }


def judge(questions: Sequence[Question], answers: Sequence[str]) -> np.ndarray:  # (N, 3)
    """Score answers: a short answer occurs, F1 with the short answers, words."""
    return np.array(
        [
            [
                short_answer_recall(answer, question.short_answers),
                word_f1(answer, question.short_answers[0]),
                len(answer.split()),
            ]
            for question, answer in zip(questions, answers, strict=True)
        ]
    )


def passages_of(question: Question) -> list[Passage]:
    """Return the passages as an answerer takes them."""
    return [
        Passage(str(at), "text", Span(0, len(text)), text)
        for at, text in enumerate(question.passages)
    ]


def _interval(differences: np.ndarray) -> list[float]:
    """Return the mean of differences with its 95 % interval."""
    chance = np.random.default_rng(0)
    drawn = chance.choice(differences, (SAMPLES, len(differences))).mean(1)
    low, high = np.quantile(drawn, (0.025, 0.975))
    return [round(float(each), 4) for each in (fmean(differences), low, high)]


if __name__ == "__main__":
    main()
