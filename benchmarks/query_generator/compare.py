"""Compare two query generators: how well they expect real queries, and what they write.

    python3 -m benchmarks.query_generator.compare --causal FOLDER --pack FOLDER \
        --data ../shared/data/ir --sets scifact,cisi --out OUT.json

Held-out pairs of `pack_texts`, in lower case, give nats per word (the whole −log p of a query by
the words that white space tells apart), with an interval of the difference paired by query; the
reading sources are apart, as only one of the two was trained on them. Round trip: for some passages
of each collection queries are sampled, and the share is counted for which BM25, and the cosine of
MiniLM, rank that passage first or among the first 20. Runs on a GPU where there is one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # not installed there

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.query_generator.pack import passage_text
from benchmarks.query_generator.recipe import QueryPair
from benchmarks.query_generator.round_trip import VectorSearch, WordSearch, new_terms, shares
from benchmarks.query_generator.text_pairs import load_text_pairs
from quoth.models.query_generator.generator import SHIPPED, QueryGenerator

PACK = Path("benchmarks/.cache/query_generator")
RESULTS = Path(__file__).parent / "results" / "comparison.json"
SETS = "scifact,cisi,cranfield,cacm,nfcorpus-tok,obliqa,tmdb,medquad,cosqa,msmarco-dl1920"
BOTH = ("small", "causal")
_DRAWS, _READING = 2_000, "reading/"

Generators = Mapping[str, QueryGenerator]


def main() -> None:
    """Measure both and write one JSON file."""
    given = arguments()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    on_gpu = device if device.type == "cuda" else None
    generators = {name: QueryGenerator.load(getattr(given, name), device=on_gpu) for name in BOTH}
    content: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if on_gpu else "cpu",
        "generators": {name: own.identity() for name, own in generators.items()},
        "passages": given.passages,
        "per_passage": given.per_passage,
        "temperature": given.temperature,
    }
    pairs = load_text_pairs(given.pack).only(held_out=True)
    content["nats_per_word"] = compare_nats(generators, draw(pairs, given.pairs))
    write(given.out, content)
    content["round_trip"] = []
    for name in filter(None, given.sets.split(",")):
        content["round_trip"].append(try_set(given.data / name, generators, given, device))
        write(given.out, content)
    content["mean"] = means(content["round_trip"])
    write(given.out, content)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", default=SHIPPED, help="name or folder of the small generator")
    parser.add_argument("--causal", required=True, help="folder of the causal generator")
    parser.add_argument("--pack", type=Path, default=PACK, help="folder that pack_texts wrote")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default=SETS)
    parser.add_argument("--pairs", type=int, default=0, help="held-out pairs; 0 takes all")
    parser.add_argument("--passages", type=int, default=300, help="passages of a collection")
    parser.add_argument("--per-passage", type=int, default=3)
    parser.add_argument("--temperature", type=float, default=0.7, help="as learning samples")
    parser.add_argument("--searches", default="bm25,minilm", help="vectors take long on a CPU")
    parser.add_argument("--examples", type=int, default=4, help="passages of a collection to show")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser.parse_args()


def draw(pairs: list[QueryPair], count: int) -> list[QueryPair]:
    """Draw some pairs by seed; 0 takes all."""
    if not count:
        return pairs
    return [pairs[at] for at in np.random.default_rng(0).permutation(len(pairs))[:count]]


def compare_nats(generators: Generators, pairs: Sequence[QueryPair]) -> list[dict[str, Any]]:
    """Score the pairs that both can write whole, by source and all together."""
    texts = [pair.query.lower() for pair in pairs]
    whole = np.ones(len(pairs), dtype=bool)
    for own in generators.values():
        most = own.config.max_query_subwords
        whole &= np.array([1 < len(ids) < most for ids in own.inputs.queries(texts)])
    kept = [pair for pair, is_whole in zip(pairs, whole.tolist(), strict=True) if is_whole]
    queries, passages = [pair.query.lower() for pair in kept], [pair.passage for pair in kept]
    nats = {name: -own.score(queries, passages) for name, own in generators.items()}
    words = np.array([len(query.split()) for query in queries])
    sources = np.array([pair.source for pair in kept])
    is_reading = np.array([source.startswith(_READING) for source in sources])
    groups = {"all but reading": ~is_reading, "reading": is_reading}
    groups |= {str(source): sources == source for source in dict.fromkeys(sources.tolist())}
    return [
        {"source": name, **per_word({key: own[rows] for key, own in nats.items()}, words[rows])}
        for name, rows in groups.items()
        if rows.any()
    ]


def per_word(nats: Mapping[str, NDArray[Any]], words: NDArray[Any]) -> dict[str, Any]:
    """Divide all nats by all words, with an interval of the difference over drawn queries."""
    chosen = np.random.default_rng(0).integers(0, len(words), (_DRAWS, len(words)))
    change = nats["causal"] - nats["small"]
    drawn = change[chosen].sum(1) / words[chosen].sum(1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    found = {name: round(float(own.sum() / words.sum()), 4) for name, own in nats.items()}
    return {
        "pairs": len(words),
        **found,
        "difference": round(float(change.sum() / words.sum()), 4),
        "interval": [round(float(low), 4), round(float(high), 4)],
    }


def try_set(
    folder: Path, generators: Generators, given: argparse.Namespace, device: torch.device
) -> dict[str, Any]:
    """Write queries for passages of a collection, and search with them."""
    with gzip.open(folder / "corpus.jsonl.gz", "rt", encoding="utf-8") as stream:
        texts = [passage_text(json.loads(line)) for line in stream]
    order = np.random.default_rng(0).permutation(len(texts)).tolist()
    rows = [row for row in order if texts[row].strip()][: given.passages]
    passages = [texts[row] for row in rows]
    searches: dict[str, WordSearch | VectorSearch] = {}
    if "bm25" in given.searches:
        searches["bm25"] = WordSearch(texts)
    if "minilm" in given.searches:
        searches["minilm"] = VectorSearch(texts, device)
    found: dict[str, Any] = {"set": folder.name, "documents": len(texts)}
    written = {}
    for name, own in generators.items():
        began = time.perf_counter()
        written[name] = own.generate(
            passages, per_passage=given.per_passage, seed=0, temperature=given.temperature
        )
        seconds = time.perf_counter() - began
        found[name] = describe(written[name], passages) | {"seconds": round(seconds, 2)}
        sources = [row for row, queries in zip(rows, written[name], strict=True) for _ in queries]
        asked = [query for queries in written[name] for query in queries]
        for kind, search in searches.items():
            found[name][kind] = shares(search.ranks(asked, sources))
    found["examples"] = [
        {"passage": passages[at][:160]} | {name: own[at] for name, own in written.items()}
        for at in range(min(given.examples, len(passages)))
    ]
    print(json.dumps({key: value for key, value in found.items() if key != "examples"}), flush=True)
    return found


def describe(written: Sequence[Sequence[str]], passages: Sequence[str]) -> dict[str, Any]:
    """Say how many queries were written, how long they are, and how much of them is new."""
    queries = [query for own in written for query in own]
    counts = np.array(
        [
            new_terms(query, passage)
            for own, passage in zip(written, passages, strict=True)
            for query in own
        ]
    )
    return {
        "queries": len(queries),
        "distinct": len({query.casefold() for query in queries}),
        "words": round(float(np.mean([len(query.split()) for query in queries])), 2),
        "questions": round(float(np.mean([query.endswith("?") for query in queries])), 4),
        "new_terms": round(float(counts[:, 0].sum() / max(1, counts[:, 1].sum())), 4),
    }


def means(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Average the shares over the collections."""
    return {
        name: {
            f"{kind} {key}": round(float(np.mean([row[name][kind][key] for row in rows])), 4)
            for kind in ("bm25", "minilm")
            for key in (rows[0][name].get(kind, ()) if rows else ())
        }
        for name in BOTH
    }


def write(path: Path, content: Mapping[str, Any]) -> None:
    """Write what is known so far."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
