"""Statistics of subwords (the ablation GLOW_tw), which travel with the encoder.

A collection counts words. An encoder whose weights go by subwords was trained with counts of its
own, and is used with the same: without them a query would be weighed otherwise than in training.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from quoth.artifact import write_text_atomically
from quoth.errors import Damaged
from quoth.vocabulary.counting import CountedTerms
from quoth.vocabulary.term_counts import EVERYTHING

FILE_NAME = "quoth_subwords.json"


def save_counts(folder: Path, counts: CountedTerms) -> None:
    """Write the counts beside an encoder; frequencies over the whole document suffice."""
    content = {
        "num_documents": counts.num_documents,
        "frequencies": {EVERYTHING: dict(counts.frequencies.get(EVERYTHING, {}))},
        "lengths": dict(counts.lengths),
    }
    text = json.dumps(content, ensure_ascii=False, sort_keys=True)
    write_text_atomically(folder / FILE_NAME, text + "\n")


def load_counts(folder: Path) -> CountedTerms | None:
    """Read the counts of an encoder, None where it has none."""
    path = folder / FILE_NAME
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return CountedTerms(content["num_documents"], content["frequencies"], content["lengths"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{path} cannot be read ({error}); train or fetch it again") from error


def digest_counts(folder: Path) -> str:
    """Hash the counts of an encoder, empty where it has none."""
    path = folder / FILE_NAME
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
