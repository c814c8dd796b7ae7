"""A Haystack component: `pip install "quoth[haystack]"`.

    from quoth.adapters.haystack import QuothRetriever

    pipeline.add_component("retriever", QuothRetriever("notes.quoth", top_k=4))

The collection is named, a folder or the address of a served one, so that pipelines can be saved.
Haystack loads a saved pipeline with components of others only where told to trust them:
`Pipeline.loads(text, allowed_modules=["quoth.adapters.haystack"])`.
"""

from __future__ import annotations

from typing import Any

from haystack import Document, component, default_from_dict, default_to_dict
from haystack.utils import Secret

from quoth.adapters.retrieving import open_place, retrieve
from quoth.engine.protocol import SearchEngine


@component
class QuothRetriever:
    """Finds passages; `filters` of Haystack are not taken, conditions are those of Quoth."""

    def __init__(
        self,
        collection: str,
        *,
        top_k: int = 10,
        where: str = "",
        searcher: str = "auto",
        key: Secret | None = None,
    ) -> None:
        """Name a folder or an address; a key is for a served collection that asks for one."""
        self.collection = str(collection)
        self.top_k, self.where, self.searcher = top_k, where, searcher
        self.key = key
        self._engine: SearchEngine | None = None

    def warm_up(self) -> None:
        """Open the collection."""
        if self._engine is None:
            key = self.key.resolve_value() if self.key else None
            self._engine = open_place(self.collection, key=key)

    def close(self) -> None:
        """Let go of files and connections."""
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator,unused-ignore]
    def run(
        self, query: str, top_k: int | None = None, where: str | None = None
    ) -> dict[str, list[Document]]:
        """Find the best passages for a query."""
        self.warm_up()
        assert self._engine is not None
        found = retrieve(
            self._engine,
            query,
            k=top_k or self.top_k,
            where=self.where if where is None else where,
            searcher=self.searcher,
        )
        documents = [
            Document(
                id=each.identity, content=each.text, score=each.score, meta=dict(each.metadata)
            )
            for each in found
        ]
        return {"documents": documents}

    def to_dict(self) -> dict[str, Any]:
        """Describe the component; of a key, only the name of its variable."""
        described: dict[str, Any] = default_to_dict(
            self,
            collection=self.collection,
            top_k=self.top_k,
            where=self.where,
            searcher=self.searcher,
            key=self.key.to_dict() if self.key else None,
        )
        return described

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> QuothRetriever:
        """Make the component from its description."""
        given = data["init_parameters"]
        if given.get("key"):
            given["key"] = Secret.from_dict(given["key"])
        made: QuothRetriever = default_from_dict(cls, data)
        return made
