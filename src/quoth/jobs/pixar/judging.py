"""Judge models of generative search by queries that they were not trained on.

The names that became queries name nothing here: each model searches an index of all the others,
with the very searcher and settings that will be used.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from statistics import fmean

import numpy as np

from quoth.engine.encoding import range_generative
from quoth.index.trie.build import build_trie
from quoth.index.trie.trie import Sequences
from quoth.jobs.context import JobContext
from quoth.jobs.learn.judging import Asked, reciprocal_ranks
from quoth.jobs.pixar.texts import AskedQuery, BuildTexts
from quoth.records import Query
from quoth.search.generative.added import no_phrases, take_rows, weigh_phrases
from quoth.search.generative.files import GenerativeModel
from quoth.search.generative.index import GenerativeIndex, IndexBasis, save_index
from quoth.search.generative.names import cut_names, measure_norms
from quoth.search.generative.searcher import GenerativeSearcher
from quoth.search.generative.state import TRIE, identify_model, index_settings
from quoth.vocabulary.phrases.vocabulary import PhraseVocabulary

_CUT = 10
_QUERIES = "queries"


class ModelJudge:
    """Searches with models of one vocabulary among documents that have the same names."""

    def __init__(
        self, context: JobContext, vocabulary: PhraseVocabulary, texts: BuildTexts, *, folder: Path
    ) -> None:
        """Put the names into a trie; `folder` is for the index that is searched."""
        self._context = context
        self._texts = texts
        self._folder = folder
        row_by_docid = context.store.rows(texts.docids)
        named = (
            (row_by_docid[docid], text)
            for docid, own in zip(texts.docids, texts.names, strict=True)
            for text in own
        )
        cut = cut_names(named, vocabulary, config=context.config.generative)
        self._trie = build_trie(
            Sequences(cut.ids, cut.offsets), owners=cut.owners, num_phrases=len(vocabulary)
        )
        self._rows = np.array(sorted(row_by_docid.values()), dtype=np.int64)

    def judge(self, model: GenerativeModel, queries: Sequence[AskedQuery]) -> list[float]:
        """Return the RR@10 of each query."""
        store, settings = self._context.store, self._context.config.generative
        weights = weigh_phrases(model.vocabulary.uses, settings.weighting)
        take = functools.partial(take_rows, model.pixar.head, no_phrases())
        norms = measure_norms(self._trie, take, weights=weights, known=None)
        basis = IndexBasis(
            store.change,
            store.log_digest(store.change),
            identify_model(self._folder),
            index_settings(settings),
        )
        place = self._folder / TRIE
        save_index(place, GenerativeIndex(self._trie, norms, self._rows), basis=basis)
        searcher = GenerativeSearcher(place, store, load_model=lambda: model, config=settings)
        asked = _as_asked(self._texts, queries)
        run = searcher.search([each.query for each in asked], k=_CUT, allowed=None)
        searcher.close()
        return reciprocal_ranks(run, asked)


def range_scores(context: JobContext, *, seed: int) -> None:
    """Let fusion know how far the scores of a new model reach, where it was calibrated."""
    store, config = context.store, context.config
    with closing(context.make_searchers(store, config)) as searchers:
        known = searchers.calibration
        if known is not None:
            found = range_generative(
                known, searchers, store, config, seed=seed, progress=context.progress
            )
            searchers.keep_calibration(found)


def judge_lexical(context: JobContext, texts: BuildTexts) -> list[float]:
    """Return the RR@10 of BM25 over the documents, for comparison."""
    asked = _as_asked(texts, texts.judged)
    searchers = context.make_searchers(context.store, context.config)
    searchers.catch_up(context.store, searcher="lexical", progress=context.progress)
    queries = [each.query for each in asked]
    run = searchers.lexical(syntax=False).search(queries, k=_CUT, allowed=None)
    searchers.close()
    return reciprocal_ranks(run, asked)


def mean_by_kind(
    judged: Sequence[AskedQuery], scores: Mapping[str, Sequence[float]]
) -> dict[str, dict[str, float]]:
    """Average each model's scores over the queries of each kind.

    >>> two = [AskedQuery("a", (0,), "x"), AskedQuery("b", (1,), "x")]
    >>> mean_by_kind(two, {"trained": [1.0, 0.5]})
    {'x': {'queries': 2, 'trained': 0.75}}
    """
    places_by_kind: dict[str, list[int]] = {}
    for at, each in enumerate(judged):
        places_by_kind.setdefault(each.kind, []).append(at)
    return {
        kind: {
            _QUERIES: len(places),
            **{name: fmean(own[at] for at in places) for name, own in scores.items()},
        }
        for kind, places in sorted(places_by_kind.items())
    }


def _as_asked(texts: BuildTexts, queries: Sequence[AskedQuery]) -> list[Asked]:
    return [
        Asked(Query(str(at), each.text), frozenset(texts.docids[place] for place in each.documents))
        for at, each in enumerate(queries)
    ]
