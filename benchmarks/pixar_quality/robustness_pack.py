"""Pack identifiers so that some documents are new to the model, but not to the trie.

    python -m benchmarks.pixar_quality.robustness_pack --sets squad --held-out-share 0.1

The layout is that of `pack`, so `run_gpu` trains and searches it as it is:

    python3 -m benchmarks.pixar_quality.run_gpu --packed benchmarks/.cache/pixar-robust
        --set squad --vocabularies phrases-30522 --test-queries 4000 --encoder FOLDER --out OUT

Passages of new documents give no queries to learn from and no text to the phrase vocabulary; their
identifiers are in the trie, cut into the phrases of the others. Only the counts that biases start
from, and weights of rarity, are taken over all. Test queries come in four groups: about old and
about new documents, both also with typing errors. `robustness --rankings OUT` judges them.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.lexical.quality import splits
from benchmarks.pixar_quality.pack import CACHE, filtered, parts_of, read_corpus
from benchmarks.pixar_quality.typos import add_typos
from quoth.evaluation.files import read_queries
from quoth.jobs.learn.queries import hold_out_documents
from quoth.models.pixar.config import PixarConfig
from quoth.models.pixar.inputs import PixarInputs
from quoth.models.pretrained import DEFAULT_NAME, find_folder, load_tokenizer
from quoth.records import Qrels, Query
from quoth.training.identifiers.pairs import (
    IdentifierPairs,
    make_identifier_pairs,
    save_identifier_pairs,
)
from quoth.vocabulary.phrases.config import PhraseConfig
from quoth.vocabulary.phrases.training import train_phrases

PACKED = CACHE / "pixar-robust"
OLD, NEW, TYPOS = "old", "new", "typos"
MOST = 500


def main() -> None:
    """Pack the sets that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/ir"))
    parser.add_argument("--sets", default="squad")
    parser.add_argument("--size", type=int, default=30522)
    parser.add_argument("--held-out-share", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=PACKED)
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for name in given.sets.split(","):
        pack(name, given)


def pack(name: str, given: argparse.Namespace) -> None:
    """Write one set."""
    out = given.out / name
    out.mkdir(parents=True, exist_ok=True)
    corpus = filtered(name, read_corpus(name, given.data), CACHE / "pixar" / name)
    new = choose_new(corpus.documents, share=given.held_out_share, seed=given.seed)
    is_new = np.array([docid in new for docid in corpus.documents])
    old = [own for own, held in zip(corpus.identifiers, is_new, strict=True) if not held]
    vocabulary = train_phrases([text for own in old for text in own], PhraseConfig(size=given.size))
    about = {
        "set": name,
        "size": len(vocabulary),
        "identifiers": sum(map(len, corpus.identifiers)),
        "documents": len(set(corpus.documents)),
        "new_documents": len(new),
    }
    pairs = make_identifier_pairs(
        corpus.identifiers,
        tokenise=PixarInputs(load_tokenizer(find_folder(DEFAULT_NAME)), PixarConfig()).queries,
        segment=vocabulary.segment,
        num_phrases=len(vocabulary),
        about=about,
    )
    left = leave_out(pairs, is_new)
    logging.info("%s: %s of %s inputs are trained on", name, len(left), len(pairs))
    save_identifier_pairs(out / f"phrases-{given.size}.bin", left)
    with gzip.open(out / f"phrases-{given.size}.texts.gz", "wt") as stream:
        json.dump([vocabulary.text_of(at) for at in range(len(vocabulary))], stream)
    source = parts_of(name)[0]
    inner = {docid.removeprefix(f"{source}/") for docid in new if docid.startswith(f"{source}/")}
    groups, _qrels = group_queries(given.data / source, inner, seed=given.seed)
    tests = [[group, query.qid, query.text] for group, own in groups.items() for query in own]
    (out / "tests.json").write_text(json.dumps(tests, ensure_ascii=False))
    (out / "documents.json").write_text(json.dumps(corpus.documents))
    (out / "new.json").write_text(json.dumps(sorted(new)))


def choose_new(documents: Sequence[str], *, share: float, seed: int) -> set[str]:
    """Choose the documents that a model is not to know."""
    return hold_out_documents(list(dict.fromkeys(documents)), share=share, seed=seed)


def leave_out(pairs: IdentifierPairs, is_new: NDArray[np.bool_]) -> IdentifierPairs:
    """Drop the inputs of some passages; what can be found stays whole."""
    stays = ~is_new[pairs.passage_rows.numpy()]
    return replace(
        pairs,
        query_rows=pairs.query_rows[stays],
        passage_rows=pairs.passage_rows[stays],
        own_rows=pairs.own_rows[stays],
        is_held_out=pairs.is_held_out[stays],
    )


def group_queries(
    folder: Path, new: Collection[str], *, seed: int, most: int = MOST
) -> tuple[dict[str, list[Query]], Qrels]:
    """Group the judged queries of a set by whether their documents are new, with and without typos.

    Queries with documents of both kinds are left out. A query's qid begins with its group.
    """
    _split, qrels = next(splits(folder))
    groups: dict[str, list[Query]] = {OLD: [], NEW: []}
    for query in read_queries(folder / "queries.jsonl.gz"):
        wanted = {docid for docid, grade in qrels.grades.get(query.qid, {}).items() if grade > 0}
        if wanted and (wanted <= set(new) or wanted.isdisjoint(new)):
            groups[NEW if wanted <= set(new) else OLD].append(query)
    spread = {
        group: [own[at] for at in np.linspace(0, len(own) - 1, min(most, len(own))).astype(int)]
        for group, own in groups.items()
    }
    spread |= {
        f"{group} {TYPOS}": [replace(each, text=add_typos(each.text, seed=seed)) for each in own]
        for group, own in list(spread.items())
    }
    grades = {
        f"{group}/{query.qid}": qrels.grades[query.qid]
        for group, own in spread.items()
        for query in own
    }
    named = {
        group: [Query(f"{group}/{query.qid}", query.text) for query in own]
        for group, own in spread.items()
    }
    return named, Qrels(grades)


if __name__ == "__main__":
    main()
