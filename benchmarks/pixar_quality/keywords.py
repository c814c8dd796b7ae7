"""Keywords as documents, each its own only identifier, as in sponsored search: P@k.

    python -m benchmarks.pixar_quality.keywords [--passages 400 --steps 200]

Pseudo-queries of one passage mean the same, so of each passage some become keywords, some queries.
A keyword is right for a query of the same passage. Queries of most passages are trained on as
labelled pairs (a log of clicks); others, of the same and of the remaining passages, are tests, and
none is a keyword. Everything runs through `Engine`, as `quoth train pixar --no-generator --pairs`
would. BM25 and vectors search the same keywords, untrained. Writes results/keywords.json.
"""

from __future__ import annotations

import argparse
import json
import logging
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.pixar_quality.hybrid import kept_identifiers
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.evaluation.compare import compare
from quoth.jobs.learn.queries import spread
from quoth.jobs.pixar.job import PixarRequest, train_generative
from quoth.records import Document, Qrels, Query
from quoth.settings.pixar import PixarBuildConfig

RESULTS = Path(__file__).parent / "results" / "keywords.json"
MEASURES = ("P@1", "P@5", "P@10", "RR@10")
SEARCHERS = ("lexical", "dense", "generative")
LOGGED, UNLOGGED = "passage with a log", "passage without"
TESTS, LOG, KEYWORDS = 2, 4, 10  # pseudo-queries of a passage that become each, in this order
UNLOGGED_ONE_IN, PAIRS_EACH = 5, 3


def main() -> None:
    """Train and judge one collection of keywords."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--set", dest="name", default="squad-dev")
    parser.add_argument("--passages", type=int, default=400)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    row = measure(given, choose_market(kept_identifiers(given.name).values(), given.passages))
    RESULTS.parent.mkdir(exist_ok=True)
    content = {"quoth": __version__, "measures": MEASURES, "rows": [row]}
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")


@dataclass
class Market:
    """Keywords, and what is asked for them."""

    keywords: list[str] = field(default_factory=list)
    pairs: list[tuple[str, int]] = field(default_factory=list)  # logged query, keyword
    tests: dict[str, list[tuple[str, list[int]]]] = field(default_factory=dict)


def choose_market(written: Iterable[Sequence[str]], most: int) -> Market:
    """Share out the pseudo-queries of passages that have enough; equal texts play one part."""
    seen: set[str] = set()
    fit = []
    for texts in written:
        own = [text for text in dict.fromkeys(texts) if text.lower() not in seen]
        if len(own) >= TESTS + LOG + KEYWORDS:
            fit.append(own)
            seen.update(text.lower() for text in own)
    market = Market(tests={LOGGED: [], UNLOGGED: []})
    for number, at in enumerate(spread(len(fit), most)):
        tests, log = fit[at][:TESTS], fit[at][TESTS : TESTS + LOG]
        keywords = fit[at][TESTS + LOG : TESTS + LOG + KEYWORDS]
        places = list(range(len(market.keywords), len(market.keywords) + len(keywords)))
        market.keywords += keywords
        group = UNLOGGED if number % UNLOGGED_ONE_IN == 0 else LOGGED
        market.tests[group] += [(text, places) for text in tests]
        if group == LOGGED:
            shown = [places[each] for each in spread(len(places), PAIRS_EACH)]
            market.pairs += [(text, place) for text in log for place in shown]
    return market


def measure(given: argparse.Namespace, market: Market) -> dict[str, Any]:
    """Index, train and judge."""
    settings = [{"generative": {"generator": "none"}}]
    with tempfile.TemporaryDirectory() as scratch:
        pairs = Path(scratch) / "pairs.jsonl"
        lines = ({"query": text, "passage": {"docid": f"k{at}"}} for text, at in market.pairs)
        pairs.write_text("".join(json.dumps(each) + "\n" for each in lines))
        with Engine.open(Path(scratch) / "c.quoth", settings=settings) as engine:
            engine.add_documents(
                Document(f"k{at}", {"title": (text,)}) for at, text in enumerate(market.keywords)
            )
            began = time.perf_counter()
            config = PixarBuildConfig(steps=given.steps, batch_size=given.batch, seed=given.seed)
            trained = train_generative(engine, PixarRequest(config, pairs), note=logging.info)
            seconds = time.perf_counter() - began
            engine.encode()
            results = {group: judge(engine, own) for group, own in market.tests.items()}
    return {
        "set": given.name,
        "keywords": len(market.keywords),
        "pairs": len(market.pairs),
        "queries": {group: len(own) for group, own in market.tests.items()},
        "minutes": round(seconds / 60, 1),
        "report": asdict(replace(trained, collection="keywords")),
        "results": results,
    }


def judge(engine: Engine, tests: Sequence[tuple[str, list[int]]]) -> list[dict[str, Any]]:
    """Compare the searchers on one group of queries."""
    queries = [Query(str(number), text) for number, (text, _places) in enumerate(tests)]
    runs = [replace(engine.run(queries, k=10, searcher=name), name=name) for name in SEARCHERS]
    qrels = Qrels(
        {
            query.qid: {f"k{at}": 1 for at in places}
            for query, (_text, places) in zip(queries, tests, strict=True)
        }
    )
    found = compare(runs, qrels, MEASURES, baseline="lexical")
    logging.info("%s", {(each.run_name, each.measure): round(each.mean, 4) for each in found.rows})
    return [asdict(row) for row in found.rows]


if __name__ == "__main__":
    main()
