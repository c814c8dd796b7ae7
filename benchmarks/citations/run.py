"""Answer the packed questions with every system, by the same code.

    python3 -m benchmarks.citations.run --base FOLDER [--arm quoth=FOLDER …] --out OUT [--limit 3]
    python -m benchmarks.citations.run --no-base --reader FOLDER --out OUT

*reader* answers as `quoth ask` does by default: the sentences that a reader finds, quoted. *reader,
one sentence* is its best sentence alone, whole. *nearest* and *nearest two* quote the sentences
whose MiniLM vectors are nearest to the question's: what every other system has to beat. An arm
answers twice: with phrases of the passages (its name), whose citations are by construction, and
without them (its name and *plain*). *base* is the untouched language model, shown one example of an
answer with markers [1], [2], … as ALCE does; what it cites are the markers it writes. All read the
same passages, without their titles, and decode greedily. Abstaining is switched off, so that every
question is answered; how much each answer is supported is written down for the report. Writes
OUT/answers.jsonl.gz. Needs torch, transformers, tokenizers and safetensors.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.citations.cosines import open_cosines
from benchmarks.citations.pack import CACHE, Question, open_questions
from quoth.answer.abstain import open_abstention
from quoth.answer.answerer import Answerer, AnswerSettings
from quoth.answer.cite import Piece, cite
from quoth.answer.config import AnswerConfig, CandidateConfig, DecodingConfig
from quoth.answer.generate import Prompt, generate
from quoth.answer.nearness import EncodeSentences, sentence_cosines, sentences_of
from quoth.answer.reading import Findings
from quoth.answer.reading_answerer import FittedReader, ReadingAnswerer, TitledPassage
from quoth.models.dynamic_lm.config import DynamicLMConfig
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM, open_dynamic_lm
from quoth.models.glow.encoder import GlowEncoder
from quoth.models.pretrained import DEFAULT_NAME
from quoth.records import Answer, Passage, Span
from quoth.vocabulary.dynamic import DynamicVocabulary, Source

SETS = ("asqa", "nq", "quotesum", "clapnq", "nq-mini", "squad")
MAX_SUBWORDS = 96
PASSAGE_SUBWORDS = 256  # of each passage in the one-shot prompt

_TASK = "Answer the question from the documents, and mark after each sentence which you used."
_EXAMPLE = """\
Document [1]: The harbour of Lindau was rebuilt in 1856 and got a lighthouse in the same year.
Document [2]: Lindau lies on an island of Lake Constance and was a free city until 1802.
Document [3]: Lake Constance is 63 km long and up to 14 km wide.
Question: when was the lighthouse of lindau built and where does it stand
Answer: The lighthouse was built in 1856, when the harbour was rebuilt [1]. Lindau lies on an \
island of Lake Constance [2].
"""

Respond = Callable[[Sequence[Question]], list[dict[str, Any]]]


def main() -> None:
    """Answer and write."""
    given = arguments()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with gzip.open(given.out / "answers.jsonl.gz", "wt") as stream:
        for name, respond in systems(given, device):
            for each in given.sets.split(","):
                questions = open_questions(given.questions / f"{each}.jsonl.gz")
                questions = _thin(questions, given.limit)
                began = time.perf_counter()
                for record in answer_all(respond, questions, batch=given.batch):
                    stream.write(json.dumps({"system": name, **record}) + "\n")
                seconds = time.perf_counter() - began
                stream.flush()  # a run that is stopped keeps the sets that it has answered
                print(f"{each} {name}: {len(questions)} in {seconds:.1f} s", flush=True)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, help="folder of the untouched language model")
    parser.add_argument("--reader", type=Path, help="folder of a reader")
    parser.add_argument("--no-nearest", action="store_true", help="leave out the baselines")
    parser.add_argument("--arm", action="append", default=[], help="name=folder")
    parser.add_argument("--no-base", action="store_true")
    parser.add_argument("--no-plain", action="store_true", help="leave out answers without phrases")
    parser.add_argument("--questions", type=Path, default=CACHE, help="what pack.py wrote")
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument(
        "--encoder", default=DEFAULT_NAME, help="of sentences, for abstention: name or folder"
    )
    parser.add_argument("--cosines", type=Path, help="in its place: what cosines.py wrote")
    parser.add_argument("--source", default="ngrams", help="phrases: ngrams or chunks")
    parser.add_argument("--candidates", type=int, default=1_000)
    parser.add_argument(
        "--free", action="store_true", help="answers may begin with any token and be spliced"
    )
    parser.add_argument("--limit", type=int, default=0, help="questions of a set; 0 for all")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    return given


def systems(given: argparse.Namespace, device: torch.device) -> Iterator[tuple[str, Respond]]:
    """Yield each system by name; one model is in memory at a time."""
    dtype = getattr(torch, given.dtype)
    if not given.no_nearest:
        known: dict[str, NDArray[np.float64]] = {}
        yield "nearest", nearest(given, known, count=1)
        yield "nearest two", nearest(given, known, count=2)
    if given.reader:
        fitted, usual = FittedReader.open(given.reader), AnswerConfig(threshold=1.0)
        encode = sentence_encoder(given) if fitted.needs_vectors(usual) else None
        read: dict[str, Findings] = {}
        yield "reader", reading(fitted, encode, usual, read)
        whole = replace(usual, most_quotations=1, quotation_words=1_000, long_words=1)
        yield "reader, one sentence", reading(fitted, encode, whole, read)
    if not given.no_base:
        config = DynamicLMConfig(template="plain")
        model = DynamicLM.start(given.base, config=config, device=device, dtype=dtype)
        model.network.merge()
        yield "base", one_shot(model, given)
    for arm in given.arm:
        name, _, folder = arm.partition("=")
        model = open_dynamic_lm(Path(folder), base=given.base, device=device, dtype=dtype)
        model.network.merge()
        for label, has_phrases in ((name, True), (f"{name} plain", False))[: 2 - given.no_plain]:
            yield label, answering(model, Path(folder), given, phrases=has_phrases)


def nearest(
    given: argparse.Namespace, known: dict[str, NDArray[np.float64]], *, count: int
) -> Respond:
    """Quote the sentences whose vectors are nearest to the question's; cosines are kept."""
    encode = sentence_encoder(given)

    def respond_one(question: Question) -> dict[str, Any]:
        sentences = sentences_of(question.passages)
        if (name := _name(question)) not in known:
            known[name] = sentence_cosines(question.text, sentences, encode=encode)
        cosines = known[name]
        chosen = np.sort(np.argsort(-cosines, kind="stable")[:count])
        quoted = [sentences[at] for at in chosen]
        pieces = [Piece(f" {each.text}", (Source(each.passage, each.span),)) for each in quoted]
        answer = cite(pieces, _passages(question))
        return _record(replace(answer, support=float(cosines.max(initial=0.0))))

    return lambda questions: [respond_one(each) for each in questions]


def reading(
    fitted: FittedReader,
    encode: EncodeSentences | None,
    config: AnswerConfig,
    read: dict[str, Findings],
) -> Respond:
    """Answer as `quoth ask` does, by reading; what was read before is not read again."""
    answerer = ReadingAnswerer(fitted, config, encode=encode)

    def respond(questions: Sequence[Question]) -> list[dict[str, Any]]:
        passages = [list(map(TitledPassage, _passages(each))) for each in questions]
        texts, names = [each.text for each in questions], [_name(each) for each in questions]
        if not all(name in read for name in names):
            read.update(zip(names, answerer.find(texts, passages), strict=True))
        answers = answerer.answer_found(texts, passages, [read[name] for name in names])
        return [{**_record(each), "short": _short(each)} for each in answers]

    return respond


def answering(
    model: DynamicLM, folder: Path, given: argparse.Namespace, *, phrases: bool
) -> Respond:
    """Answer as `quoth ask` does, with or without phrases."""
    answer = AnswerConfig(threshold=1.0)
    if given.free:
        answer = replace(answer, phrase_first=False, far_penalty=0.0, splice_penalty=0.0)
    settings = AnswerSettings(
        answer=answer,
        candidates=CandidateConfig(source=given.source, max_candidates=given.candidates),
        decoding=answer.for_answering(DecodingConfig(max_subwords=MAX_SUBWORDS, phrases=phrases)),
        abstention=open_abstention(folder),
    )
    answerer = Answerer(model, settings, encode=sentence_encoder(given))

    def respond(questions: Sequence[Question]) -> list[dict[str, Any]]:
        passages = [_passages(each) for each in questions]
        answers = answerer.answer([each.text for each in questions], passages)
        return [_record(answer) for answer in answers]

    return respond


def sentence_encoder(given: argparse.Namespace) -> EncodeSentences:
    """Return the encoder of sentences, or the cosines that stand in its place."""
    if given.cosines:
        return open_cosines(given.cosines)
    encoder = GlowEncoder.load(given.encoder)
    return lambda texts: encoder.encode_queries(texts).vectors


def one_shot(model: DynamicLM, given: argparse.Namespace) -> Respond:
    """Answer with markers, after one example."""
    config = AnswerConfig().for_answering(DecodingConfig(max_subwords=MAX_SUBWORDS, phrases=False))
    inputs = model.inputs

    def respond(questions: Sequence[Question]) -> list[dict[str, Any]]:
        nothing = torch.zeros(0, model.network.phrase_width, device=model.device)
        prompts = [
            Prompt(
                (*inputs.opening, *inputs.tokenise(_shot(model, each)).subword_ids),
                DynamicVocabulary.of([]),
                nothing,
            )
            for each in questions
        ]
        written = generate(model, prompts, config=config)
        texts = [inputs.text([i for token in own for i in token.subword_ids]) for own in written]
        return [
            {"text": text.strip().partition("\n")[0], "citations": None, "support": None}
            for text in texts
        ]

    return respond


def answer_all(
    respond: Respond, questions: Sequence[Question], *, batch: int
) -> Iterator[dict[str, Any]]:
    """Answer in batches; the seconds of each are its batch's share."""
    for start in range(0, len(questions), batch):
        own = questions[start : start + batch]
        began = time.perf_counter()
        found = respond(own)
        seconds = (time.perf_counter() - began) / len(own)
        for question, record in zip(own, found, strict=True):
            yield {"set": question.set, "qid": question.qid, **record, "seconds": seconds}


def _shot(model: DynamicLM, question: Question) -> str:
    """Write the prompt: task, example, passages, question."""
    lines = []
    for number, text in enumerate(question.passages, start=1):
        ends = model.inputs.tokenise(text).ends[:PASSAGE_SUBWORDS]
        lines.append(f"Document [{number}]: {text[: ends[-1] if ends else 0]}")
    joined = "\n".join(" ".join(line.split()) for line in lines)
    return f"{_TASK}\n\n{_EXAMPLE}\n{joined}\nQuestion: {question.text}\nAnswer:"


def _name(question: Question) -> str:
    return f"{question.set}/{question.qid}"


def _passages(question: Question) -> list[Passage]:
    return [
        Passage(str(at), "text", Span(0, len(text)), text)
        for at, text in enumerate(question.passages)
    ]


def _record(answer: Answer) -> dict[str, Any]:
    """Write an answer down; a citation is its two spans and the number of its passage."""
    citations = [
        [
            *(each.answer_span.start, each.answer_span.end, int(each.passage.docid)),
            *(each.passage_span.start, each.passage_span.end),
        ]
        for each in answer.citations
    ]
    return {
        "text": answer.text,
        "citations": citations,
        "support": answer.support,
        "abstained": answer.abstained,
    }


def _short(answer: Answer) -> list[Any] | None:
    return None if answer.short is None else [answer.short.text, answer.short.probability]


def _thin(questions: Sequence[Question], limit: int) -> list[Question]:
    """Keep so many, spread evenly: sets list answerable questions first."""
    step = max(1, len(questions) // limit) if limit else 1
    return list(questions[::step][: limit or None])


if __name__ == "__main__":
    main()
