"""A PyTerrier transformer: `pip install "quoth[pyterrier]"`. It needs no Java.

from quoth import Engine
from quoth.adapters.pyterrier import QuothTransformer

bm25 = QuothTransformer(Engine.open("notes.quoth"), searcher="lexical", num_results=100)
pt.Experiment([bm25], topics, qrels, ["ndcg_cut_10"])
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyterrier as pt

from quoth.adapters.retrieving import retrieve
from quoth.engine.protocol import SearchEngine

_COLUMNS = ["qid", "query", "docno", "score", "rank"]


class QuothTransformer(pt.Transformer):  # type: ignore[misc,unused-ignore]
    """Ranks documents for topics; with `text`, each row has the passage that was found."""

    def __init__(
        self,
        engine: SearchEngine,
        *,
        searcher: str = "auto",
        num_results: int = 100,
        where: str = "",
        text: bool = False,
    ) -> None:
        super().__init__()
        self._engine, self._searcher, self._where = engine, searcher, where
        self.num_results, self._text = num_results, text

    def transform(self, topics: Any) -> Any:
        """Rank documents for each topic; other columns of a topic stay with its rows."""
        pt.validate.query_frame(topics, extra_columns=["query"])
        rows = [row for topic in topics.to_dict("records") for row in self._search(topic)]
        rest = [name for name in topics.columns if name not in _COLUMNS]
        names = [*_COLUMNS, *(["text"] if self._text else []), *rest]
        return pd.DataFrame(rows, columns=list(dict.fromkeys(names)))

    def _search(self, topic: dict[str, Any]) -> list[dict[str, Any]]:
        found = retrieve(
            self._engine,
            str(topic["query"]),
            k=self.num_results,
            where=self._where,
            searcher=self._searcher,
            distinct=False,  # judgements know every document
        )
        return [
            {**topic, "docno": each.docid, "score": each.score, "rank": rank, "text": each.text}
            for rank, each in enumerate(found)
        ]
