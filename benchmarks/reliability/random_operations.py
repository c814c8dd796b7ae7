"""Random operations on one collection, and every searcher against brute force.

    python -m benchmarks.reliability.random_operations [--steps 20000] [--seed 0]

Documents are added, updated and removed, the collection is reopened with other settings and
verified, in random order. In between, it is searched with every searcher, and the hits are compared
with what follows from the documents alone:

| searcher | compared with |
|---|---|
| lexical | tests/support/reference.py: every document scored with exact statistics |
| dense | the cosines of all passages, encoded anew |
| hybrid | those two lists, fused |
| all, generative and auto included | a collection made of the same documents at once |

Networks are tiny and random: what they find means nothing, but has to be the same. Collections have
some ten to forty documents, so that all of them can be compared. Writes results/random.json; exits
with 1 where anything differed.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch

from quoth import __version__
from quoth.collection.filter_syntax import parse_filter
from quoth.collection.store import Store
from quoth.engine.engine import Engine
from quoth.records import Document, Hit, Query, Run
from quoth.search.hybrid.fusion import fuse

SUPPORT = Path(__file__).resolve().parents[2] / "tests" / "support"
RESULTS = Path(__file__).parent / "results" / "random.json"
SEARCHERS = ("lexical", "dense", "hybrid", "generative", "auto")
MODEL = "tiny"

_WORDS = (
    *("owl", "barn", "night", "raven", "hen", "hunt", "sleep", "the", "the", "the", "at", "bird"),
    *("owls", "zebra", "über", "東京", "42", "wing"),  # some of which no network knows whole
)
_SIGNED = ('"the owl"', "+owl -barn", "title:owl night", '-"barn owl" the', "+tags:hen owl", "-the")
_CONDITIONS = ("", "", "year >= 2000", 'lang in ("en", "de")', "not year exists")
_TOLD = 500  # steps between two lines of progress
_MOST = 40  # documents, so that each search can be compared with all of them
_TOLERANCE = 2e-3
"""By how much scores by networks may differ: batches of other sizes are added up otherwise, and
vectors are stored in 16 bits."""


@dataclass(frozen=True, slots=True)
class World:
    """Tiny models, made once."""

    encoder: Path
    reader: Path
    install: Callable[[Path], None]
    """Puts the model for generative search into a collection."""


class Expected(NamedTuple):
    """The score of every document that is to be found, and by how much scores may be off."""

    scores: Mapping[str, float]
    tolerance: float


@dataclass
class Tally:
    """What was done and compared, and what differed."""

    steps: Counter[str] = field(default_factory=Counter)
    compared: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


def main() -> None:
    """Live, and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    sys.path.append(str(SUPPORT))
    torch.set_num_threads(1)  # networks this small gain nothing from more
    begun = time.perf_counter()
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="quoth-random-") as folder:
        for tally in live(Path(folder), steps=given.steps, seed=given.seed):
            seconds = round(time.perf_counter() - begun)
            write(tally, given.out, seed=given.seed, seconds=seconds)
            logging.info("%d steps, %d problems", tally.steps.total(), len(tally.problems))
    sys.exit(bool(tally.problems))


def live(folder: Path, *, steps: int, seed: int) -> Iterator[Tally]:
    """Do so many random things to a collection; says now and then, and at the end, what was."""
    with Life(folder, make_world(folder / "models"), random.Random(seed)) as life:
        for step in range(1, steps + 1):
            life.step()
            if step % _TOLD == 0 or step == steps:
                yield life.tally


def write(tally: Tally, path: Path, *, seed: int, seconds: int) -> None:
    """Write what was done so far, so that an interruption loses little."""
    content = {
        "quoth": __version__,
        "seed": seed,
        "steps": tally.steps.total(),
        "seconds": seconds,
        "operations": dict(tally.steps.most_common()),
        "compared": dict(tally.compared.most_common()),
        "problems": tally.problems,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def make_world(folder: Path) -> World:
    """Make the models; tests/support has to be importable."""
    from tiny_encoder import WORDS, save_tiny_encoder
    from tiny_generative import make_model
    from tiny_reader import make_reader

    from quoth.search.generative.files import save_generative_model

    model = make_model(folder / "pixar")
    return World(
        save_tiny_encoder(folder / "encoder", words=WORDS),
        make_reader(folder / "reader").folder,
        lambda collection: save_generative_model(
            collection / "generative" / MODEL, model, about={}
        ),
    )


class Life:
    """One collection, and what is to be found in it."""

    def __init__(self, folder: Path, world: World, chance: random.Random) -> None:
        self._folder = folder
        self._world = world
        self._chance = chance
        self._documents: dict[str, Document] = {}
        self._number = 0
        self.tally = Tally()
        self._collection = folder / "life.quoth"
        self._engine = self._make(self._collection)

    def __enter__(self) -> Life:
        return self

    def __exit__(self, *_error: object) -> None:
        self._engine.close()

    def step(self) -> None:
        """Do one random thing; what goes wrong is noted, with what was done."""
        ways = {
            self._add: 5.0,
            self._remove: 3.0,
            self._search_lexical: 12.0,
            self._search_dense: 8.0,
            self._search_hybrid: 6.0,
            self._reopen: 1.5,
            self._verify: 0.3,
            self._compare_with_new: 0.7,
        }
        (way,) = self._chance.choices(list(ways), list(ways.values()))
        name = way.__name__.strip("_").replace("_", " ")
        self.tally.steps[name] += 1
        for problem in way():
            self.tally.problems.append(f"step {self.tally.steps.total()}, {name}: {problem}")

    # Changes -------------------------------------------------------------------------------------

    def _add(self) -> list[str]:
        batch = {each.docid: each for each in self._draw_documents()}
        written = self._engine.add_documents(batch.values())
        added = sum(docid not in self._documents for docid in batch)
        self._documents |= batch
        return [] if written.added == added else [f"{written.added} added, expected {added}"]

    def _remove(self) -> list[str]:
        known = [*self._documents, "nobody"]
        doomed = self._chance.sample(known, min(len(known), self._chance.randint(1, 4)))
        missing = self._engine.remove(doomed)
        wrong = set(missing) != set(doomed) - self._documents.keys()
        for docid in doomed:
            self._documents.pop(docid, None)
        return [f"{missing} were missing of {doomed}"] if wrong else []

    def _reopen(self) -> list[str]:
        self._engine.close()
        self._engine = self._open(self._collection)
        if self._documents == {each: self._engine.document(each) for each in self._documents}:
            return []
        return ["documents are not as they were written"]

    def _verify(self) -> list[str]:
        found = self._engine.verify()
        return [] if found.is_clean else list(found.lines())

    def _draw_documents(self) -> list[Document]:
        chance = self._chance
        room = max(1, _MOST - len(self._documents))
        docids = [f"d{chance.randrange(_MOST)}" for _each in range(min(room, chance.randint(1, 6)))]
        return [self._draw_document(docid) for docid in docids]

    def _draw_document(self, docid: str) -> Document:
        chance = self._chance
        fields: dict[str, tuple[str, ...]] = {
            "text": (self._draw_text(chance.choice((3, 12, 60, 300))),)
        }
        if chance.random() < 0.6:
            fields["title"] = (self._draw_text(3),)
        if chance.random() < 0.3:
            fields["tags"] = (self._draw_text(1), self._draw_text(2))
        metadata = {"year": chance.choice((1999, 2020)), "lang": chance.choice(("en", "de", "fr"))}
        kept = {key: value for key, value in metadata.items() if chance.random() < 0.7}
        return Document(docid, fields, kept)

    def _draw_text(self, most: int) -> str:
        return " ".join(self._chance.choices(_WORDS, k=self._chance.randint(1, most)))

    # Searches ------------------------------------------------------------------------------------

    def _search_lexical(self) -> list[str]:
        query = self._chance.choice((self._draw_text(5), self._chance.choice(_SIGNED)))
        return self._compare("lexical", query, self._expect_lexical, syntax=True)

    def _search_dense(self) -> list[str]:
        return self._compare("dense", self._draw_text(5), self._expect_dense)

    def _search_hybrid(self) -> list[str]:
        return self._compare("hybrid", self._draw_text(5), self._expect_hybrid)

    def _compare(
        self,
        searcher: str,
        query: str,
        expect: Callable[[str, str], Expected],
        *,
        syntax: bool = False,
    ) -> list[str]:
        """Search, and compare the hits with what the documents alone let expect."""
        k, where = self._chance.randint(1, 12), self._chance.choice(_CONDITIONS)
        found = self._engine.search(query, k=k, where=where, searcher=searcher, syntax=syntax)
        expected = expect(query, where)
        self.tally.compared[f"{searcher}, brute force"] += 1
        problems = differences(found, expected.scores, k=k, tolerance=expected.tolerance)
        return [f"{query!r} where {where!r}, k {k}: {each}" for each in problems]

    def _expect_lexical(self, query: str, where: str) -> Expected:
        import reference  # in tests/support

        hits = reference.search(self._documents, query, k=len(self._documents), where=where)
        return Expected({hit.docid: hit.score for hit in hits}, 1e-5)

    def _expect_dense(self, query: str, where: str) -> Expected:
        documents = [each for each in self._documents.values() if meets(each, where)]
        queries = [Query("", query)] * len(documents)
        with closing(Store.open(self._collection)) as store:
            scores = self._engine.make_searchers(store).dense_side().score(queries, documents)
        pairs = zip(documents, scores, strict=True)
        return Expected({document.docid: score for document, score in pairs}, _TOLERANCE)

    def _expect_hybrid(self, query: str, where: str) -> Expected:
        """Fuse both lists; what cosines are off by grows as their range is brought to 0 … 1."""
        dense = self._expect_dense(query, where)
        sides = {"lexical": self._expect_lexical(query, where).scores, "dense": dense.scores}
        runs = [Run(name, {"": tuple(ranked(scores))}) for name, scores in sides.items()]
        config = self._engine.config.fusion
        weights = config.weights("lexical", ["dense"])
        fused = fuse(runs, config, weights=weights, k=len(self._documents))
        cosines = dense.scores.values()
        width = max(cosines, default=0.0) - min(cosines, default=0.0)
        return Expected(
            {hit.docid: hit.score for hit in fused.hits[""]},
            dense.tolerance / min(1.0, max(width, 1e-2)),
        )

    def _compare_with_new(self) -> list[str]:
        """Make a collection of the same documents at once: it finds the same."""
        folder = self._folder / "new.quoth"
        shutil.rmtree(folder, ignore_errors=True)
        problems = []
        with self._make(folder) as new:
            new.add_documents(self._documents[docid] for docid in sorted(self._documents))
            for searcher in SEARCHERS:
                query, where = self._draw_text(5), self._chance.choice(_CONDITIONS)
                every = new.search(query, k=_MOST, where=where, searcher=searcher, syntax=False)
                expected = {hit.docid: hit.score for hit in every}
                k = self._chance.choice((3, _MOST))
                found = self._engine.search(
                    query, k=k, where=where, searcher=searcher, syntax=False
                )
                self.tally.compared[f"{searcher}, made at once"] += 1
                problems += [
                    f"{searcher}, {query!r} where {where!r}, k {k}: {each}"
                    for each in differences(found, expected, k=k, tolerance=_TOLERANCE)
                ]
        return problems

    def _make(self, folder: Path) -> Engine:
        """Make a collection in which every searcher searches from the first document on."""
        with self._open(folder) as engine:
            engine.add_documents([Document("first", {"text": ("the first",)})])
            engine.encode()
            self._world.install(folder)
        engine = self._open(folder)
        engine.remove(["first"])
        return engine

    def _open(self, folder: Path) -> Engine:
        world = self._world
        settings: dict[str, Any] = {
            "dense": {"encoder": str(world.encoder)},
            "fusion": {"method": "convex", "normalise": "min_max"},
            "generative": {"model": MODEL, "generator": "none"},
            "rerank": {"reader": str(world.reader), "max_subwords": 48},
            "duplicates": {"together": False},
            "lexical": {"compact_share": self._chance.choice((0.1, 1.0))},
        }
        return Engine.open(folder, settings=[settings])


def meets(document: Document, where: str) -> bool:
    """Whether a document meets a condition, by its definition."""
    from filter_reference import matches  # in tests/support

    if not where:
        return True
    values = {
        key: value if isinstance(value, tuple) else (value,)
        for key, value in document.metadata.items()
    }
    return bool(matches(parse_filter(where), values))


def ranked(scores: Mapping[str, float]) -> list[Hit]:
    """Put scored documents into their order."""
    hits = [Hit(docid, score) for docid, score in scores.items()]
    return sorted(hits, key=lambda hit: (-hit.score, hit.docid))


def differences(
    found: Sequence[Hit], expected: Mapping[str, float], *, k: int, tolerance: float
) -> list[str]:
    """Say how hits differ from the k best of all that is to be found, but for rounding.

    >>> expected = {"a": 3.0, "b": 2.0, "c": 1.0}
    >>> differences([Hit("a", 3.0), Hit("b", 2.0)], expected, k=2, tolerance=1e-3)
    []
    >>> differences([Hit("a", 3.0), Hit("c", 1.0)], expected, k=2, tolerance=1e-3)
    ["['b'] are missing"]
    >>> differences([Hit("a", 3.5)], expected, k=1, tolerance=1e-3)
    ['a scores 3.5, expected 3.0']
    """
    problems = []
    if len(found) != min(k, len(expected)):
        problems.append(f"{len(found)} hits, expected {min(k, len(expected))}")
    for hit in found:
        if hit.docid not in expected:
            problems.append(f"{hit.docid} is not to be found")
        elif abs(hit.score - expected[hit.docid]) > tolerance * max(1.0, abs(hit.score)):
            problems.append(f"{hit.docid} scores {hit.score}, expected {expected[hit.docid]}")
    if [(hit.docid, hit.score) for hit in found] != [
        (hit.docid, hit.score) for hit in ranked({hit.docid: hit.score for hit in found})
    ]:
        problems.append("hits are not in their order")
    best = ranked(expected)[: len(found)]
    least = min((hit.score for hit in found), default=float("-inf"))
    there = {hit.docid for hit in found}
    slack = 2 * tolerance * max(1.0, abs(least))
    missing = [hit.docid for hit in best if hit.docid not in there and hit.score > least + slack]
    return [*problems, f"{missing} are missing"] if missing else problems


if __name__ == "__main__":
    main()
