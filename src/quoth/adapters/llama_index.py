"""A LlamaIndex retriever: `pip install "quoth[llama-index]"`.

from quoth import Engine
from quoth.adapters.llama_index import QuothRetriever

QuothRetriever(Engine.open("notes.quoth"), k=4).retrieve("owls that hunt at dusk")
"""

from __future__ import annotations

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from quoth.adapters.retrieving import retrieve
from quoth.engine.protocol import SearchEngine


class QuothRetriever(BaseRetriever):  # type: ignore[misc,unused-ignore]
    """Finds passages in an opened or served collection."""

    def __init__(
        self, engine: SearchEngine, *, k: int = 10, where: str = "", searcher: str = "auto"
    ) -> None:
        self._engine = engine
        self._k, self._where, self._searcher = k, where, searcher
        super().__init__()

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        found = retrieve(
            self._engine,
            query_bundle.query_str,
            k=self._k,
            where=self._where,
            searcher=self._searcher,
        )
        return [
            NodeWithScore(
                node=TextNode(text=each.text, id_=each.identity, metadata=dict(each.metadata)),
                score=each.score,
            )
            for each in found
        ]
