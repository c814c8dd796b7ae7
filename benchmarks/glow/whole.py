"""Judge the encoder that `learn` starts from on the sets by which `settle` judges GLOW.

    python -m benchmarks.glow.whole [--texts FILE]

All six layers as published, with title and text, without the written queries that GLOW's documents
have as a field. Tells whether the three layers that GLOW was trained in could take its place.
Writes results/whole.json.
"""

from __future__ import annotations

import argparse
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.glow.run_gpu import CUT, ndcg, reciprocal_rank
from benchmarks.glow.texts import OUT as TEXTS
from quoth.models.glow.encoder import GlowEncoder

RESULTS = Path(__file__).parent / "results" / "whole.json"
_AT_ONCE = 256


def main() -> None:
    """Encode, rank and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--texts", type=Path, default=TEXTS)
    parser.add_argument("--encoder", default="all-MiniLM-L6-v2")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    encoder = GlowEncoder.load(given.encoder)
    sets = json.loads(lzma.decompress(given.texts.read_bytes()))["sets"]
    found = {}
    for chosen in sets:
        found[chosen["name"]] = judge(encoder, chosen)
        print(chosen["name"], found[chosen["name"]], flush=True)
    means = {
        name: round(float(np.mean([own[name] for own in found.values()])), 4)
        for name in ("nDCG@10", "RR@10")
    }
    about = {"encoder": given.encoder, "layers": encoder.num_layers}
    given.out.write_text(json.dumps(about | means | {"sets": found}, indent=1) + "\n")
    print(means)


def judge(encoder: Any, chosen: dict[str, Any]) -> dict[str, float]:
    """Rank all documents of a set for every query by cosine; return the means over queries."""
    documents = [{"title": [title], "text": [text]} for title, text in chosen["documents"]]
    order = sorted(range(len(documents)), key=lambda at: len(documents[at]["text"][0]))
    rows = np.concatenate(
        [
            encoder.encode_documents([documents[i] for i in order[at : at + _AT_ONCE]]).vectors
            for at in range(0, len(order), _AT_ONCE)
        ]
    )
    queries = encoder.encode_queries([text for _qid, text in chosen["queries"]]).vectors
    grades = np.zeros((len(queries), len(documents)), dtype=np.float32)
    for query, row, grade in chosen["judged"]:
        grades[query, row] = grade
    cosines = queries @ rows[np.argsort(order)].T
    best = np.argsort(-cosines, axis=1, kind="stable")[:, :CUT]
    ranked = np.take_along_axis(grades, best, axis=1)
    ideal = -np.sort(-grades, axis=1)[:, :CUT]
    return {
        "nDCG@10": round(float(ndcg(ranked, ideal).mean()), 4),
        "RR@10": round(float(reciprocal_rank(ranked).mean()), 4),
    }


if __name__ == "__main__":
    main()
