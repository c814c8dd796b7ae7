"""Learn from shards: a sample of all documents to learn on, and what it learned for all shards.

The sample is an ordinary collection, `learning-sample` beside the shards, where a long job resumes.
What was learned there is copied to every shard, and its vectors are made, while search goes on with
what it has; then all shards use it at once (see `installing.py`).
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from quoth.collection.shards import ShardSet
from quoth.collection.store import FILE_NAME, Store
from quoth.engine.engine import Engine
from quoth.engine.writing import locked
from quoth.records import Document
from quoth.search.searcher import Progress
from quoth.settings.config import Values, build_config
from quoth.settings.stored import GENERATIVE, LEARNED, MODELS
from quoth.shards.encoding import encode_together
from quoth.shards.engine import ShardedEngine
from quoth.shards.installing import begin_installing, finish_installing
from quoth.shards.linking import link_folder
from quoth.shards.port import ShardEngine

SAMPLE = "learning-sample"
_SAMPLE_OF = "sample_of"
_BATCH = 1000


def draw_sample(
    shards: ShardSet, *, most: int, settings: Sequence[Values], progress: Progress
) -> Path:
    """Write a sample of all documents as one collection; one that is still right is kept.

    Documents are drawn by a hash of their docids, so that the same documents give the same sample,
    however many shards they are in.
    """
    folder = shards.folder / SAMPLE
    with contextlib.ExitStack() as opened:
        stores = [
            opened.enter_context(contextlib.closing(Store.open(path))) for path in shards.shards
        ]
        chosen = choose((docid for store in stores for docid in store.all_docids()), most=most)
        documents = _fetch(stores, shards, chosen)
        state = _describe(stores, most=most)
        if _state_of(folder) != state:
            shutil.rmtree(folder, ignore_errors=True)
            _begin(folder, stores[0])
            with Engine.open(folder, settings=settings, progress=progress) as engine:
                engine.add_documents(documents)
                with engine.writing() as (sample, _config):
                    _carry_identifiers(stores, shards, sample)
                    sample.set_setting(_SAMPLE_OF, state)
    return folder


def choose(docids: Iterable[str], *, most: int) -> list[str]:
    """Draw at most so many docids by their hashes; in their own order.

    >>> choose(["b", "a", "c"], most=5), len(choose(map(str, range(100)), most=10))
    (['a', 'b', 'c'], 10)
    """
    by_hash = sorted(docids, key=lambda docid: hashlib.sha256(docid.encode()).digest())
    return sorted(by_hash[:most])


def install_sample(
    shards: ShardSet, sample: Path, *, settings: Sequence[Values], progress: Progress
) -> bool:
    """Let all shards use what was learned on a sample; tells whether there was anything new."""
    with contextlib.closing(Store.open(sample)) as store:
        learned: dict[str, Any] = store.setting(LEARNED) or {}
    with contextlib.closing(Store.open(shards.shard(0))) as store:
        if (store.setting(LEARNED) or {}) == learned:
            return False
    for path in shards.shards:
        link_folder(sample / MODELS, path / MODELS)
    wait = build_config(*settings).collection.wait_seconds
    plain = [_without_encoder(each) for each in settings]
    if "encoder" in learned:
        with locked(shards.folder, wait_seconds=wait), contextlib.ExitStack() as opened:
            engines = []
            for path in shards.shards:
                own = {"dense": {"encoder": str(path / learned["encoder"])}}
                shard = ShardEngine.open(path, settings=[*plain, own], progress=progress)
                engines.append(opened.enter_context(shard))
            encode_together(engines, anew=True, progress=progress)
    with locked(shards.folder, wait_seconds=wait):
        begin_installing(shards, {LEARNED: learned})
        finish_installing(shards)
    with ShardedEngine.open(shards.folder, settings=plain, progress=progress) as engine:
        engine.encode()  # vectors are there; it finds out how to fuse them
    return True


def _begin(folder: Path, first: Store) -> None:
    """Make a collection with the settings, fields and models of a shard."""
    with contextlib.closing(Store.create(folder)) as sample:
        for name in ("config", LEARNED, GENERATIVE):
            if (value := first.setting(name)) is not None:
                sample.set_setting(name, value)
        sample.put_fields(first.fields())
    if (first.path.parent / MODELS).is_dir():
        link_folder(first.path.parent / MODELS, folder / MODELS)


def _fetch(stores: Sequence[Store], shards: ShardSet, docids: Sequence[str]) -> Iterable[Document]:
    found = (stores[shards.shard_of(docid)].get(docid) for docid in docids)
    return (document for document in found if document is not None)


def _carry_identifiers(stores: Sequence[Store], shards: ShardSet, sample: Store) -> None:
    """Give the documents of a sample the identifiers that they have in their shards."""
    by_origin: dict[str, dict[str, list[str]]] = {}
    for docid in sample.all_docids():
        store = stores[shards.shard_of(docid)]
        for row in store.rows([docid]).values():
            for origin, texts in store.identifiers_by_origin(row).items():
                by_origin.setdefault(origin, {})[docid] = texts
    for origin, texts_by_docid in by_origin.items():
        sample.put_identifiers(texts_by_docid, origin=origin)


def _describe(stores: Sequence[Store], *, most: int) -> list[Any]:
    """Name the documents of all shards as they are; identifiers make no difference.

    A document that is updated has another row.
    """
    digest = hashlib.sha256()
    for store in stores:
        for row, docid in sorted(store.docids(sorted(store.live_rows())).items()):
            digest.update(f"{row} {docid}\n".encode())
    return [most, sum(store.num_documents for store in stores), digest.hexdigest()]


def _state_of(folder: Path) -> Any:
    if not (folder / FILE_NAME).is_file():
        return None
    with contextlib.closing(Store.open(folder)) as store:
        return store.setting(_SAMPLE_OF)


def _without_encoder(values: Values) -> Values:
    """Leave out the encoder that learning began from, as search is to use the learned one."""
    dense: Mapping[str, Any] = values.get("dense", {})
    return {**values, "dense": {key: dense[key] for key in dense if key != "encoder"}}
