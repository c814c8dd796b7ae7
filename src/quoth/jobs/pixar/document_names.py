"""What the documents of a collection are named by, when a model is trained to predict names."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence

from quoth.errors import ConfigError
from quoth.jobs.context import Desk
from quoth.jobs.pixar.texts import Names
from quoth.search.generative.names import name_documents


def require_names(desk: Desk, names: Sequence[Names]) -> None:
    """Make sure that some document has a name."""
    if not any(each.texts for each in names):
        sources = ", ".join(desk.config.generative.sources)
        raise ConfigError(
            f"no document of {desk.folder} has a name ({sources}); let some be written (leave out"
            f" --no-generator, or run quoth learn {desk.folder}), or name fields with"
            " --generative.sources"
        )


def list_texts(desk: Desk) -> Iterator[str]:
    """List the texts of all documents."""
    for stored in desk.store.live_documents():
        for texts in stored.document.fields.values():
            yield from texts


def list_names(desk: Desk) -> Iterator[Names]:
    """List what names each document, in the order of the documents."""
    for stored in desk.store.live_documents():
        named = name_documents(
            {stored.row: stored.document}, desk.store, config=desk.config.generative, identify=None
        )
        yield Names(stored.document.docid, tuple(text for _row, text in named))


def fingerprint(desk: Desk) -> str:
    """Name the documents and their names as they are."""
    digest = hashlib.sha256(json.dumps(sorted(desk.store.live_rows())).encode())
    for each in list_names(desk):
        digest.update(json.dumps([each.docid, *each.texts]).encode())
    return digest.hexdigest()
