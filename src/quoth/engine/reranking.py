"""Reranking of one collection: whether, by whom, with which share, and who looks again."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from quoth.errors import ConfigError
from quoth.records import Query
from quoth.search.hybrid.calibration import Calibration
from quoth.search.rerank import ReadHits, ReadPassage, Reranking, ScorePairs, Similarity
from quoth.search.rerank_config import BOTH, CROSS_ENCODER, LIKELIHOOD, NONE, RerankConfig
from quoth.search.second_look import look_again
from quoth.search.standings import Look
from quoth.settings.config import Config
from quoth.text.words import Analyser

if TYPE_CHECKING:
    from quoth.engine.calibrating import ReadDocument, RerankingTrial
    from quoth.engine.models import LoadEncoder
    from quoth.models.query_generator.scoring import QueryScorer

READERS = (CROSS_ENCODER, BOTH)
"""Who reranks with a cross-encoder, alone or not."""

LoadReranker = Callable[[RerankConfig], ScorePairs]
LoadScorer = Callable[[str], "QueryScorer | None"]
"""Loads a query generator to score with, by its name; None where it cannot say both things."""


def find_reranker(config: RerankConfig) -> Path | None:
    """Find the weights of who reads; None where nobody shall, or they are not installed."""
    if config.by == NONE:
        return None
    name = config.generator if config.by == LIKELIHOOD else config.reader
    return Path(name) if Path(name).is_dir() else _find_installed(name)


def _find_installed(name: str) -> Path | None:
    from quoth.models.pretrained import find_shipped

    with contextlib.suppress(ConfigError):
        return find_shipped(name)
    return None


def identify_reranker(folder: Path) -> str:
    """Tell one cross-encoder from another: by the checksum of its weights."""
    content = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return str(content["sha256"])


def share_of(config: RerankConfig, calibration: Calibration | None) -> float:
    """Return the share of reranking: the calibrated one, if it is this model's, or as set."""
    if config.by == LIKELIHOOD:
        return config.likelihood_weight
    found = calibration.rerank if calibration else None
    folder = find_reranker(config)
    if found is None or folder is None or config.method != "calibrated":
        return config.weight
    return found.share if found.model == identify_reranker(folder) else config.weight


def usual_width(config: Config) -> float | None:
    """Return how far scores of a cross-encoder reach; None where fused ones have no such scale."""
    has_scale = config.fusion.normalise == "range" and config.fusion.method != "rrf"
    return config.rerank.width if has_scale and config.rerank.by in READERS else None


def arrange(
    config: Config,
    *,
    share: float,
    load: LoadReranker,
    read: ReadHits,
    words: Callable[[Query], str],
    is_fused: bool,
    similarity: Similarity | None,
) -> Reranking:
    """Say how hits are reranked.

    The cross-encoder's order of a fused search also goes by a second look and by likeness.
    """
    own = config.rerank
    refuse_none(own)
    width = usual_width(config) if is_fused else None
    return Reranking(
        by=own.by,
        depth=own.depth,
        weight=share,
        load=functools.partial(load, own),
        read=read,
        words=words,
        width=width,
        similarity=similarity if width is not None else None,
        late=Look(own.late_interaction, own.late_likelihood),
        late_hits=own.late_hits,
        feedback=own.feedback,
        feedback_hits=own.feedback_hits,
    )


def look_by_config(
    config: Config,
    text: str,
    passages: Sequence[ReadPassage],
    *,
    load_scorer: LoadScorer,
    load_encoder: LoadEncoder,
    weights: Mapping[str, float],
    analyser: Analyser,
) -> Sequence[Look] | None:
    """Look by the query generator, or by the encoder of the vectors where likelihood has no weight.

    A generator of another kind, which has no states to compare, leaves it to the encoder as well.
    """
    rerank = config.rerank
    scorer = load_scorer(rerank.generator) if rerank.late_likelihood else None
    if scorer is not None:
        return look_again(scorer, text, passages, weights=weights, analyser=analyser)
    if not rerank.late_interaction:
        return None
    from quoth.search.late import compare_subwords

    encoder = load_encoder(config)
    found = compare_subwords(encoder, text, passages, weights=weights, analyser=analyser)
    return None if found is None else [Look(similarity=each) for each in found]


def make_trial(
    config: Config, load: LoadReranker, *, read: ReadHits, read_document: ReadDocument
) -> RerankingTrial | None:
    """Return what is needed to find out what reranking is worth; None where nobody reads."""
    rerank = config.rerank
    folder = find_reranker(rerank)
    if folder is None or rerank.by not in READERS:
        return None
    from quoth.engine.calibrating import RerankingTrial

    return RerankingTrial(
        rerank,
        identify_reranker(folder),
        width=usual_width(config),
        load=functools.partial(load, rerank),
        read=read,
        read_document=read_document,
    )


def refuse_none(
    config: RerankConfig, names: Sequence[str] = (CROSS_ENCODER, LIKELIHOOD, BOTH)
) -> None:
    """Say that nobody is there to rerank."""
    if config.by == NONE:
        raise ConfigError(
            f"rerank.by is none, so nobody reranks; set it to {' or '.join(names)}, or leave out"
            " --rerank"
        )
