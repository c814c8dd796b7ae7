"""Whether an index scores as its statistics say it must, on a sample of its documents."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import chain, islice

from quoth.collection.store import Store
from quoth.records import Query
from quoth.search.lexical.ties import LEAST_STEP, ROUNDING
from quoth.search.searcher import ScoringSearcher

_NUM_CHECKED = 20


def find_wrong_scores(using: ScoringSearcher, store: Store, *, num_documents: int) -> Iterator[str]:
    """Search for some words of some documents, and compare with what their scores must be."""
    step = max(1, num_documents // _NUM_CHECKED)
    rows = list(islice(store.ordered_rows(), 0, None, step))
    for row, document in store.documents(rows).items():
        words = re.findall(r"\w+", " ".join(chain(*document.fields.values())))
        query = Query("check", " ".join(words[-4:]))
        hits = using.search([query], k=1, allowed={row}).hits[query.qid]
        found, (right,) = sum(hit.score for hit in hits), using.score([query], [document])
        if not math.isclose(found, right, rel_tol=2 * (ROUNDING - 1), abs_tol=2 * LEAST_STEP):
            yield f"document {document.docid} scores {found:g} for {query.text!r}, not {right:g}"
