"""Count which words GLOW looks at most in documents, and show a few: Table 4 of its paper.

    python -m benchmarks.glow.attended [--data ../shared/data] [--seeds 0,1,2] [--steps 200]

Three-layer encoders (MiniLM's lowest layers, two fields, mean pooling) are trained on natural pairs
on a CPU, without weights, by row and with log-weights added: the same pairs in the same order for a
seed. Each reads documents of nq-mini that answer a question, title and opening, and lists the five
words it looks at most: by attention in the last layer (`models.glow.attention_report`), and by the
paper's score, the mean inner product of a token's last state with those of the others. Counted is
how many of the five are words of the question, which was not read with the document; words that
all questions are made of (`text.closed_classes`) count as none of its words. The documents shown
are the first that were drawn. Beside these: words drawn at random, the five of the greatest weight,
and each weighting before any training. RR@10 is among the documents drawn.

A run that is done is not repeated, an interrupted one goes on. Writes results/attended.json.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.glow.attended_report import sum_up
from benchmarks.glow.pack import read_grades, read_lines, read_pairs, split_lead
from benchmarks.glow.run_gpu import write
from quoth.models.glow.attention_report import top_words
from quoth.models.glow.config import GlowConfig
from quoth.models.glow.encoder import GlowEncoder, load_base
from quoth.models.glow.inputs import Fields, GlowInputs, SubwordSequence, SurfaceWords
from quoth.models.pretrained import DEFAULT_NAME, find_folder, load_tokenizer
from quoth.text.closed_classes import STOP_WORDS
from quoth.text.words import Analyser, AnalyserConfig
from quoth.training.loop import Progress
from quoth.training.recipes.glow import as_encoder, build_network, loop_config, train_glow
from quoth.training.recipes.glow_config import GlowRecipe, encoder_config
from quoth.training.retriever.training_set import (
    PLAIN,
    Pair,
    TrainingSet,
    open_training_set,
    write_training_set,
)
from quoth.vocabulary.counting import CountedTerms, count_terms

RESULTS = Path(__file__).parent / "results" / "attended.json"
CACHE = Path("benchmarks/.cache/glow")
ARMS = ("none", "row", "add_log")
SET = "nq-mini"
FIELDS = ("title", "text")
MOST, SHOWN = 5, 3
_VARIANT = "weighted"
_CHECKPOINT_EVERY = 50


@dataclass(frozen=True, slots=True)
class Asked:
    """A question, and the document that answers it."""

    question: str
    fields: Fields
    wanted: frozenset[str]
    """Terms of the question that are not of the closed classes."""


@dataclass(frozen=True, slots=True)
class Judged:
    """What is judged, and the word statistics of its collection."""

    asked: tuple[Asked, ...]
    counts: CountedTerms


def main() -> None:
    """Train and judge what is not done yet, and write one JSON file after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--documents", type=int, default=200)
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    folder = find_folder(DEFAULT_NAME)
    assert folder is not None
    analyser = Analyser(AnalyserConfig())
    judged = read_judged(given.data / "ir" / SET, analyser, count=given.documents)
    done = given.cache / f"attended-{given.steps}-{given.batch}-{given.documents}.json"
    runs = json.loads(done.read_text())["runs"] if done.exists() else []
    with tempfile.TemporaryDirectory() as scratch:
        trainer = Trainer(given, folder, analyser, scratch=Path(scratch))
        for arm, seed, steps in plan(given):
            if any((run["arm"], run["seed"], run["steps"]) == (arm, seed, steps) for run in runs):
                continue
            runs.append(trainer.run(arm, seed, steps=steps, judged=judged))
            write(done, {"runs": runs})
            write_results(given, runs, judged, trainer)


def plan(given: argparse.Namespace) -> Iterator[tuple[str, int, int]]:
    """Name arm, seed and steps of every run: the untrained ones, then seed by seed."""
    arms = given.arms.split(",")
    yield from ((arm, 0, 0) for arm in arms)
    yield from ((arm, int(seed), given.steps) for seed in given.seeds.split(",") for arm in arms)


def write_results(
    given: argparse.Namespace, runs: Sequence[Mapping[str, Any]], judged: Judged, trainer: Trainer
) -> None:
    """Sum up all runs, with what needs no network beside them."""
    inputs = trainer.inputs("row")
    sequences = inputs.documents([each.fields for each in judged.asked], judged.counts)
    surfaces = [inputs.document_words(each.fields) for each in judged.asked]
    controls = {
        "words drawn at random": [
            share_wanted({word for _at, word in spoken(surface)}, each.wanted, trainer.analyser)
            for surface, each in zip(surfaces, judged.asked, strict=True)
        ],
        "the greatest weights": [
            share_wanted(heaviest(sequence, surface), each.wanted, trainer.analyser)
            for sequence, surface, each in zip(sequences, surfaces, judged.asked, strict=True)
        ],
    }
    about = {
        "set": SET,
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
        "steps": given.steps,
        "batch": given.batch,
        "documents": len(judged.asked),
        "read": {
            "shown": [
                f"{each.question} → {' '.join(each.fields['title'])}"
                for each in judged.asked[:SHOWN]
            ]
        },
    }
    content = json.dumps(about | sum_up(runs, controls), indent=1, ensure_ascii=False)
    given.out.write_text(content + "\n", encoding="utf-8")


# ----------------------------------------------------------------------------------------- reading
def read_judged(folder: Path, analyser: Analyser, *, count: int) -> Judged:
    """Draw questions by seed, each with a document of its own that answers it."""
    documents = {
        row["_id"]: {name: [str(row.get(name) or "")] for name in FIELDS}
        for row in read_lines(folder / "corpus.jsonl.gz")
    }
    grades = read_grades(folder / "qrels" / "test.tsv.gz")
    questions = {row["_id"]: row["text"] for row in read_lines(folder / "queries.jsonl.gz")}
    question_by_docid: dict[str, str] = {}
    qids = [qid for qid in questions if qid in grades]
    for at in np.random.default_rng(0).permutation(len(qids)):
        (docid, *_others) = grades[qids[at]]
        question_by_docid.setdefault(docid, questions[qids[at]])
    chosen = list(question_by_docid.items())[:count]
    stop = {term for word in STOP_WORDS for term in analyser.terms(word)}
    return Judged(
        tuple(
            Asked(text, documents[docid], frozenset(analyser.terms(text)) - stop)
            for docid, text in chosen
        ),
        count_words(documents.values(), analyser),
    )


def draw_pairs(path: Path, count: int) -> list[Pair]:
    """Draw natural pairs by seed; a passage's first sentence, where short, stands as its title."""
    pairs = [pair for pair in read_pairs(path) if pair["source"] != "medquad"]
    drawn = np.random.default_rng(0).permutation(len(pairs))[:count]
    return [
        Pair(pairs[at]["query"], dict(zip(FIELDS, ([own] for own in parts), strict=True)))
        for at in drawn
        for parts in [split_lead(pairs[at]["passage"])]
    ]


def count_words(documents: Any, analyser: Analyser) -> CountedTerms:
    """Count in how many documents each word stands."""
    return count_terms(
        {name: [analyser.terms(text) for text in texts] for name, texts in document.items()}
        for document in documents
    )


# ---------------------------------------------------------------------------------------- training
class Trainer:
    """Trains encoders on the same pairs, laid out once, and reads with them."""

    def __init__(
        self, given: argparse.Namespace, folder: Path, analyser: Analyser, *, scratch: Path
    ) -> None:
        self.analyser = analyser
        self._given = given
        self._tokenizer = load_tokenizer(folder)
        self._base: nn.Module = load_base(str(folder))
        pairs = draw_pairs(given.data / "text" / "pairs.jsonl.zst", given.steps * given.batch)
        self._query_length = float(np.mean([len(analyser.terms(pair.query)) for pair in pairs]))
        write_training_set(
            scratch,
            pairs,
            variants={_VARIANT: self.inputs("row")},
            counts=count_words((pair.fields for pair in pairs), analyser),
        )
        self._scratch = scratch

    def run(self, arm: str, seed: int, *, steps: int, judged: Judged) -> dict[str, Any]:
        """Train one encoder, or take it untrained, and judge it."""
        recipe = self._recipe(arm, seed)
        checkpoint = self._given.cache / "attended" / f"{arm}-{seed}-{steps}"
        began, loss = time.perf_counter(), None
        if steps:
            network, report = train_glow(
                self._base,
                self._training_set(arm),
                recipe,
                device=torch.device("cpu"),
                loop=replace(loop_config(recipe), checkpoint_every=_CHECKPOINT_EVERY),
                progress=_print_progress,
                checkpoint=checkpoint,
            )
            loss = round(report.losses[-1][1], 4)
        else:
            network = build_network(self._base, recipe)
        seconds = time.perf_counter() - began
        encoder = as_encoder("glow", network, self._tokenizer, self._config(arm))
        found = judge(encoder, judged, self.analyser)
        shutil.rmtree(checkpoint, ignore_errors=True)
        about = {"arm": arm, "seed": seed, "steps": steps, "seconds": round(seconds, 1)}
        print(about, {name: np.mean(own) for name, own in found["scores"].items()}, flush=True)
        return about | {"loss": loss} | found

    def inputs(self, arm: str) -> GlowInputs:
        """Return what lays texts out for an arm."""
        return GlowInputs(self._tokenizer, self._config(arm), analyser=self.analyser)

    def _training_set(self, arm: str) -> TrainingSet:
        return open_training_set(self._scratch, variant=PLAIN if arm == "none" else _VARIANT)

    def _recipe(self, arm: str, seed: int) -> GlowRecipe:
        steps, batch = max(1, self._given.steps), self._given.batch
        return GlowRecipe(weighting=arm, layout="fields", steps=steps, batch_size=batch, seed=seed)

    def _config(self, arm: str) -> GlowConfig:
        usual = GlowConfig(
            fields=FIELDS,
            field_caps={"title": 20},
            idf="scaled",
            query_length=self._query_length,
            max_subwords=64,
            max_query_subwords=32,
        )
        return encoder_config(self._recipe(arm, 0), usual)


# ----------------------------------------------------------------------------------------- judging
@torch.inference_mode()
def judge(encoder: GlowEncoder, judged: Judged, analyser: Analyser) -> dict[str, Any]:
    """List the words of each document that are looked at most, and score them."""
    documents = [each.fields for each in judged.asked]
    shown: list[str] = []
    scores: dict[str, list[float]] = {"attention": [], "products": []}
    for each, sequence in zip(
        judged.asked, encoder.inputs.documents(documents, judged.counts), strict=True
    ):
        surface = encoder.inputs.document_words(each.fields)
        looks = encoder.look(sequence, is_query=False)
        assert looks is not None
        words = {
            "attention": [own.word for own in top_words(looks, surface, count=MOST)],
            "products": [
                own.word
                for own in top_words(inner_products(encoder, sequence), surface, count=MOST)
            ],
        }
        for way, own in words.items():
            scores[way].append(share_wanted(own, each.wanted, analyser))
        shown.append(", ".join(words["attention"]))
    scores["RR@10"] = reciprocal_ranks(encoder, judged)
    return {"shown": shown[:SHOWN], "scores": scores}


def inner_products(encoder: GlowEncoder, sequence: SubwordSequence) -> list[float]:
    """Return each token's mean inner product with the others, of states after the last layer."""
    network = encoder.network
    output = network.states(network.document_encoder, encoder.inputs.pad([sequence]))
    return mean_products(output.last_hidden_state[0])


def mean_products(states: torch.Tensor) -> list[float]:  # (T, D)
    """Return the mean inner product of each row with the other rows.

    >>> mean_products(torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 3.0]]))
    [1.0, 1.0, 0.0]
    """
    products = states @ states.T
    others = (products.sum(1) - products.diagonal()) / max(1, len(states) - 1)
    return [float(each) for each in others]


def reciprocal_ranks(encoder: GlowEncoder, judged: Judged) -> list[float]:
    """Rank all documents for each question; its own is relevant."""
    questions = encoder.encode_queries(
        [each.question for each in judged.asked], counts=judged.counts
    )
    documents = encoder.encode_documents(
        [each.fields for each in judged.asked], counts=judged.counts
    )
    cosines = questions.vectors @ documents.vectors.T
    ranks = 1 + (cosines > cosines.diagonal()[:, None]).sum(1)
    return [1 / int(rank) if rank <= 10 else 0.0 for rank in ranks]


def share_wanted(words: Any, wanted: frozenset[str], analyser: Analyser) -> float:
    """Return the share of words that are words of the question."""
    found = [not wanted.isdisjoint(analyser.terms(word)) for word in words]
    return sum(found) / max(1, len(found))


def spoken(surface: SurfaceWords) -> Iterator[tuple[int, str]]:
    """Yield place and word of each subword that could be listed, as `top_words` chooses them.

    >>> list(spoken(SurfaceWords(("Owls", ","), (-1, 0, 0, 1, -1))))
    [(1, 'owls'), (2, 'owls')]
    """
    for place, at in enumerate(surface.word_of):
        word = surface.words[at].casefold() if at >= 0 else ""
        if any(character.isalnum() for character in word):
            yield place, word


def heaviest(sequence: SubwordSequence, surface: SurfaceWords) -> list[str]:
    """List the words of the greatest weight, each with that of its heaviest subword."""
    weight_by_word: dict[str, float] = {}
    for place, word in spoken(surface):
        weight_by_word[word] = max(sequence.weights[place], weight_by_word.get(word, 0.0))
    return sorted(weight_by_word, key=lambda word: (-weight_by_word[word], word))[:MOST]


def _print_progress(progress: Progress) -> None:
    print(f"  step {progress.step}: loss {progress.loss:.4f}", flush=True)


if __name__ == "__main__":
    main()
