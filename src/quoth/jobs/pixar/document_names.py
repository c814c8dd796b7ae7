"""What the documents of a collection are named by, when a model is trained to predict names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence

from quoth.errors import ConfigError
from quoth.jobs.context import JobContext
from quoth.jobs.pixar.texts import Names
from quoth.search.generative.names import name_documents, name_sentences


def require_names(context: JobContext, names: Sequence[Names]) -> None:
    """Make sure that some document has a name."""
    if not any(each.texts for each in names):
        sources = ", ".join(context.config.generative.sources)
        raise ConfigError(
            f"no document of {context.folder} has a name ({sources}); let some be written (leave"
            f" out --no-generator, or run quoth learn {context.folder}), or name fields with"
            " --generative.sources, or let sentences be names with --generative.sentences"
        )


def list_texts(context: JobContext) -> Iterator[str]:
    """List the texts of all documents."""
    for stored in context.store.live_documents():
        for texts in stored.document.fields.values():
            yield from texts


def list_names(context: JobContext) -> Iterator[Names]:
    """List what names each document, in the order of the documents."""
    for stored in context.store.live_documents():
        named = name_documents(
            {stored.row: stored.document},
            context.store,
            config=context.config.generative,
            identify=None,
        )
        sentences = frozenset(name_sentences(stored.document, context.config.generative))
        texts = tuple(text for _row, text in named)
        yield Names(stored.document.docid, texts, sentences.intersection(texts))


def fingerprint(context: JobContext, written: Mapping[str, Sequence[str]]) -> str:
    """Name the documents and their identifiers as they are, but for those a job itself wrote.

    What a document is named by besides follows from its row, whose content never changes.
    """
    store = context.store
    digest = hashlib.sha256(json.dumps(sorted(store.live_rows())).encode())
    for docid in store.all_docids():
        own = written.get(docid, ())
        given = [text for text in store.identifiers(docid) if text not in own]
        digest.update(json.dumps([docid, *given]).encode())
    return digest.hexdigest()
