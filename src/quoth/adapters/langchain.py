"""A LangChain retriever: `pip install "quoth[langchain]"`.

    from quoth import Engine
    from quoth.adapters.langchain import QuothRetriever

    retriever = QuothRetriever(engine=Engine.open("notes.quoth"), k=4)
    retriever.invoke("owls that hunt at dusk")

An engine belongs to one thread. `ainvoke` and `batch` search in other ones, so give them a
`Client` of a served collection for each, or the folder by `QuothRetriever.from_place`.
"""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from quoth.adapters.retrieving import open_place, retrieve


class QuothRetriever(BaseRetriever):  # type: ignore[misc,unused-ignore]
    """Finds passages; with `place`, a folder or an address, each search opens it for its thread."""

    engine: Any = None
    place: str = ""
    key: str | None = None
    k: int = 10
    where: str = ""
    searcher: str = "auto"

    @classmethod
    def from_place(cls, place: str, **settings: Any) -> QuothRetriever:
        """Search a folder or the address of a served collection, from any thread."""
        return cls(place=str(place), **settings)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        if self.engine is not None:
            return self._search(self.engine, query)
        with open_place(self.place, key=self.key) as engine:
            return self._search(engine, query)

    def _search(self, engine: Any, query: str) -> list[Document]:
        found = retrieve(engine, query, k=self.k, where=self.where, searcher=self.searcher)
        return [
            Document(page_content=each.text, id=each.identity, metadata=dict(each.metadata))
            for each in found
        ]
