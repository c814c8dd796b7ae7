"""Put together the report of a learning from what its stages found. No torch here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quoth import __version__
from quoth.jobs.job_folder import JobFolder
from quoth.jobs.learn.judging import KNOWN, MEASURE, SEARCHERS, split_by_overlap
from quoth.jobs.learn.reranked import RERANKED
from quoth.jobs.report.report import (
    LearningReport,
    Quality,
    Stage,
    estimate,
    paired_difference,
)
from quoth.models.pretrained import DEFAULT_NAME

ORDER = (
    "vectors before",
    "queries",
    "passage set",
    "training",
    "encode",
    "judge",
    "install",
    "reranker",
    "identifiers",
)
"""The stages, in their order."""

GENERATIVE = "generative"
"""The stage that follows them where it is asked for."""


def summarise(
    folder: JobFolder, *, collection: str, num_documents: int, seed: int
) -> LearningReport:
    """Make the report of a learning whose stages are all finished."""
    training, judged = folder.found("training"), folder.found("judge")
    decided, fitted = folder.found("install"), folder.found("reranker")
    stages = tuple(stage for name in order_of(folder) for stage in _stages(folder, name))
    kinds = folder.found("passage set")["kinds"]
    base = str(folder.fact("base"))
    return LearningReport(
        collection=collection,
        quoth=__version__,
        seed=seed,
        device=training["device"],
        num_documents=num_documents,
        num_passages=folder.found("passage set")["passages"],
        num_queries_by_kind=kinds,
        encoder_before=base,
        encoder_after=str(folder.fact("name")) if decided["installed"] else base,
        installed=decided["installed"],
        reason=decided["reason"],
        quality=(*_reranked(fitted, seed=seed), *_qualities(judged, seed=seed)),
        stages=stages,
        leak=judged["leak"],
        identifiers=folder.found("identifiers"),
        reranker_fitted=fitted["fitted"],
        second_look=fitted.get("second look", False),
        reranker_reason=fitted["reason"],
        generative=folder.finished(GENERATIVE) or {},
        supervision=_supervision(base, kinds),
        seconds=round(sum(stage.seconds for stage in stages), 1),
        peak_megabytes=max(stage.peak_megabytes for stage in stages),
        examples=tuple(
            (text, tuple(queries)) for text, queries in folder.found("queries")["examples"]
        ),
    )


def order_of(folder: JobFolder) -> tuple[str, ...]:
    """List the stages of a learning."""
    is_wanted = folder.settings["learn"].get("generative", False)
    return (*ORDER, GENERATIVE) if is_wanted else ORDER


def _stages(folder: JobFolder, name: str) -> list[Stage]:
    """Return a stage; training comes apart into its own."""
    if name != "training":
        peak = folder.peak(name)
        return [Stage(name, folder.seconds(name), peak, 0, 0, (), "")]
    return [
        Stage(
            each["name"],
            round(each["seconds"], 3),
            round(each["peak_megabytes"], 1),
            each["steps"],
            each["best_step"],
            tuple((step, score) for step, score in each["curve"]),
            each["stopped_because"],
        )
        for each in folder.found(name)["stages"]
    ]


def _qualities(judged: Mapping[str, Any], *, seed: int) -> list[Quality]:
    """Compare before and after for every kind of queries and searcher."""
    before, after = judged["scores"]["before"], judged["scores"]["after"]
    found = []
    for kind in after:
        parts = {kind: list(range(len(after[kind]["dense"])))}
        if kind == KNOWN:
            parts |= split_by_overlap(judged["overlaps"])
        for name, places in parts.items():
            for searcher in SEARCHERS:
                old = [before[kind][searcher][at] for at in places]
                new = [after[kind][searcher][at] for at in places]
                found.append(_quality(searcher, name, old, new, seed=seed))
    return found


def _reranked(fitted: Mapping[str, Any], *, seed: int) -> list[Quality]:
    """Compare what the reranker makes of the same hits before and after it was fitted."""
    scores = fitted.get("scores", {})
    return [
        _quality(RERANKED, kind, scores["before"][kind][RERANKED], own[RERANKED], seed=seed)
        for kind, own in scores.get("after", {}).items()
    ]


def _quality(
    searcher: str, kind: str, old: Sequence[float], new: Sequence[float], *, seed: int
) -> Quality:
    return Quality(
        searcher,
        kind,
        len(new),
        MEASURE,
        before=estimate(old, seed=seed),
        after=estimate(new, seed=seed),
        difference=paired_difference(old, new, seed=seed),
    )


def _supervision(base: str, kinds: Mapping[str, int]) -> str:
    """Say honestly what labels are behind the result."""
    if base == DEFAULT_NAME:
        seen = (
            f"{base} was pretrained by others on labelled pairs of many sources, and the query"
            " generator on natural pairs such as titles and questions with their texts"
        )
    else:
        seen = f"what {base} had seen before is for whoever made it to say"
    if labelled := kinds.get("labelled"):
        return f"{seen}; here, {labelled} labelled queries of this collection were used"
    return f"{seen}; of this collection no label was used"
