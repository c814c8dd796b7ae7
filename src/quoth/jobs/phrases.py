"""Phrase vocabularies on their own: built from a collection or a file, and looked at."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from quoth.artifact import write_text_atomically
from quoth.collection.schema import require_collection
from quoth.collection.shards import is_sharded, open_shards
from quoth.collection.store import FILE_NAME, Store
from quoth.errors import ConfigError, CorpusError, Damaged
from quoth.jobs.job_folder import JobFolder
from quoth.jobs.pixar.texts import read_lines
from quoth.search.generative.names import name_documents
from quoth.search.searcher import Progress
from quoth.settings.config import build_config
from quoth.settings.stored import stored_settings
from quoth.vocabulary.phrases.config import NUM_BYTES, PhraseConfig
from quoth.vocabulary.phrases.report import PhraseReport, report_phrases
from quoth.vocabulary.phrases.training import train_phrases
from quoth.vocabulary.phrases.vocabulary import PhraseVocabulary, open_phrases
from quoth.vocabulary.phrases.workers import Threads, Workers

REPORT_FILE = "report.json"
THREADS = Threads(2)
"""Who counts, unless told otherwise."""


def build_phrases(
    source: Path,
    config: PhraseConfig,
    *,
    out: Path,
    progress: Progress,
    workers: Workers = THREADS,
) -> tuple[PhraseVocabulary, PhraseReport]:
    """Build a vocabulary and save it with a report on its texts; goes on where a call stopped."""
    texts = read_texts(source)
    if not texts:
        raise CorpusError(
            f"{source} holds no texts to find phrases in (titles, names, what quoth learn writes);"
            f' run "quoth learn {source}", or name a file of texts'
            if source.is_dir()
            else f"{source} holds no texts to find phrases in; add some, or name another"
        )
    folder = JobFolder(out.with_name(out.name + ".building"))
    digest = hashlib.sha256("\n".join(texts).encode("utf-8", "surrogatepass")).hexdigest()
    with folder.locked():
        if folder.differences({"texts": digest}):
            folder.drop()
        if not folder.is_begun:
            folder.begin({"texts": digest}, {})
        made = train_phrases(
            texts,
            config,
            folder=folder.path,
            progress=lambda *told: progress(*told),
            workers=workers,
        )
        report = report_phrases(made, texts)
        made.save(out)
        write_text_atomically(out / REPORT_FILE, json.dumps(asdict(report), indent=1) + "\n")
        folder.drop()
    return made, report


def read_texts(source: Path) -> list[str]:
    """Read the texts of a collection, identifiers and titles, or those of a file, line by line."""
    if source.is_file():
        return read_lines(source)
    if is_sharded(source):
        found = {text for path in open_shards(source).shards for text in _read_names(path)}
        return sorted(found)
    require_collection(source, FILE_NAME)
    return sorted(_read_names(source))


def _read_names(collection: Path) -> set[str]:
    """Read what the documents of a collection, or of a shard, are named by."""
    with closing(Store.open(collection)) as store:
        config = build_config(*stored_settings(store, collection)).generative
        return {
            text
            for stored in store.live_documents()
            for _row, text in name_documents(
                {stored.row: stored.document}, store, config=config, identify=None
            )
        }


def open_checked(folder: Path) -> tuple[PhraseVocabulary, PhraseReport | None]:
    """Open a vocabulary, with the report on the texts it was built from where there is one."""
    if not folder.is_dir():
        raise ConfigError(
            f"there is no phrase vocabulary at {folder}; make one with"
            f' "quoth phrases build COLLECTION --out {folder}"'
        )
    made, path = open_phrases(folder), folder / REPORT_FILE
    if not path.exists():
        return made, None
    try:
        return made, PhraseReport(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise Damaged(f"{path} cannot be read ({error}); delete it, or build again") from error


def check_phrases(vocabulary: PhraseVocabulary, source: Path) -> PhraseReport:
    """Check a vocabulary on the texts of a collection or a file."""
    return report_phrases(vocabulary, read_texts(source))


def describe_phrases(
    vocabulary: PhraseVocabulary, report: PhraseReport | None, *, most: int
) -> dict[str, Any]:
    """Say how large a vocabulary is, show some of its phrases, and list what checks found."""
    lengths = np.diff(vocabulary.phrases.offsets)
    uses = np.asarray(vocabulary.uses)
    own = np.arange(NUM_BYTES, len(vocabulary))
    numbers: dict[str, Any] = {
        "phrases": len(vocabulary),
        "of several words": _count_several(vocabulary),
        "cutter": vocabulary.cutter,
        "min_count": vocabulary.config.min_count,
    }
    if report is not None:
        numbers |= {
            "texts": report.num_texts,
            "mean length": round(report.mean_length, 3),
            "p99 length": round(report.p99_length, 3),
            "coverage": round(report.coverage, 6),
            "share of single bytes": round(report.single_bytes, 6),
            "minimum use": report.minimum_use,
            "phrases that split words": report.split_words,
        }
    by_length = own[np.lexsort((own, -lengths[own]))][:most]
    by_use = own[np.lexsort((own, -uses[own]))][:most]
    return {
        "numbers": numbers,
        "longest": _list(vocabulary, by_length),
        "most used": _list(vocabulary, by_use),
        "problems": _find_problems(report),
    }


def _find_problems(report: PhraseReport | None) -> list[str]:
    """Say which checks failed; a vocabulary that was built whole fails none.

    >>> _find_problems(PhraseReport(1, 300, 0.5, 0.0, 2, 2, 1.0, 1.0))
    ['its phrases give back 50.00 % of the texts, expected all', '2 phrases split words']
    """
    if report is None:
        return []
    problems = []
    if report.coverage != 1.0:
        problems.append(
            f"its phrases give back {report.coverage:.2%} of the texts, expected all".replace(
                "%", " %"
            )
        )
    if report.split_words:
        problems.append(f"{report.split_words:,} phrases split words")
    return problems


def _count_several(vocabulary: PhraseVocabulary) -> int:
    """Count the phrases of several words: those with a space inside."""
    return sum(
        " " in vocabulary.text_of(each).strip() for each in range(NUM_BYTES, len(vocabulary))
    )


def _list(vocabulary: PhraseVocabulary, ids: Sequence[Any] | np.ndarray) -> list[dict[str, Any]]:
    return [
        {"phrase": vocabulary.text_of(int(each)), "uses": int(vocabulary.uses[each])}
        for each in ids
    ]
