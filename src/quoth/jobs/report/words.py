"""A learning report in words, for the terminal and for the page alike."""

from __future__ import annotations

from collections.abc import Sequence

from quoth.jobs.report.report import Estimate, LearningReport, Quality
from quoth.text.display import count, duration, signed

LEAK = (
    "A model can look good for a bad reason: because it was trained on the very queries it is"
    " judged by, or because these repeat the words of the document they look for, which any search"
    " finds. So documents whose known items and pseudo-queries are judged by give no query to train"
    " on, and a stretch that became a query is searched for as if it did not stand in its document."
    " What the check found is below; trust the queries of low overlap most, for words alone do not"
    " find them."
)

MEASURE = (
    "RR@10 is one over the rank of the right document, 0 if it is not among the ten best: always"
    " first is 1, always second 0.5."
)

_SEARCHERS = ("reranked", "hybrid", "dense")
_KINDS = ("labelled pairs", "known items", "pseudo-queries")


def headline(report: LearningReport) -> str:
    """Say in one line what became of what was learnt."""
    used = {"encoder": report.installed, "reranker": report.reranker_fitted}
    names = [name for name, is_used in used.items() if is_used]
    looks = "looks at its best hits a second time" if report.second_look else ""
    if names:
        start = f"Installed: from now on search uses the new {' and the new '.join(names)}"
        return f"{start}, and {looks}." if looks else f"{start}."
    return f"From now on search {looks}." if looks else "Kept aside: search is as it was."


def reasons(report: LearningReport) -> tuple[str, ...]:
    """Say why each model is used or not."""
    return tuple(filter(None, (report.reranker_reason, report.reason)))


def main_quality(quality: Sequence[Quality], *, searcher: str) -> Quality | None:
    """Choose the row of a searcher whose queries are nearest to what people ask."""

    def rank(row: Quality) -> tuple[bool, int]:
        kind = _KINDS.index(row.queries) if row.queries in _KINDS else len(_KINDS)
        return row.difference is None, kind

    return min((row for row in quality if row.searcher == searcher), key=rank, default=None)


def by_how_much(report: LearningReport) -> tuple[str, ...]:
    """Say how far each searcher's quality moved, and whether that may be chance."""
    rows = [main_quality(report.quality, searcher=each) for each in _SEARCHERS]
    told = tuple(_move(row) for row in rows if row is not None)
    return told or ("Nothing could be measured: there were no held-out queries.",)


def _move(row: Quality) -> str:
    start = f"{row.searcher.capitalize()} search on {row.num_queries:,} {row.queries}"
    if row.before is None or row.difference is None:
        return f"{start} reaches {row.measure} {with_interval(row.after)}; it did not exist before."
    sure = (
        "the interval holds 0, so it may be chance"
        if row.difference.low <= 0 <= row.difference.high
        else "the interval does not hold 0, so it is hardly chance"
    )
    return (
        f"{start} went from {row.measure} {row.before.mean:.3f} to {row.after.mean:.3f}:"
        f" {with_interval(row.difference, is_difference=True)}; {sure}."
    )


def how_it_knows(report: LearningReport) -> str:
    """Say what the judgement stands on."""
    numbers = {row.queries: row.num_queries for row in report.quality}
    kinds = {name: number for name, number in numbers.items() if "," not in name} or numbers
    listed = ", ".join(f"{number:,} {name}" for name, number in kinds.items()) or "no queries"
    return (
        f"Before and after were judged on the same held-out queries ({listed}), none of which was"
        " trained on; intervals are 95\u00a0%, over queries."
    )


def with_interval(estimate: Estimate, *, is_difference: bool = False) -> str:
    """Write a mean and its interval.

    >>> with_interval(Estimate(0.5, 0.41, 0.59))
    '0.500 (0.410 to 0.590)'
    >>> with_interval(Estimate(0.02, -0.01, 0.05), is_difference=True)
    '+0.020 (−0.010 to +0.050)'
    """
    mean, low, high = (
        signed(each) if is_difference else f"{each:.3f}"
        for each in (estimate.mean, estimate.low, estimate.high)
    )
    return f"{mean} ({low} to {high})"


def plain_number(value: float) -> str:
    """Write a count or a share.

    >>> plain_number(1204.0), plain_number(0.12345)
    ('1,204', '0.123')
    """
    return f"{value:,.0f}" if value == int(value) else f"{value:,.3f}"


def facts(report: LearningReport) -> dict[str, str]:
    """List what else a reader may want to know, by name."""
    written = ", ".join(f"{number:,} {kind}" for kind, number in report.num_queries_by_kind.items())
    return {
        "documents": f"{report.num_documents:,}, in {count(report.num_passages, 'passage')}",
        "queries made": written or "none",
        "encoder before": report.encoder_before,
        "encoder after": report.encoder_after,
        "time": duration(report.seconds),
        "most memory": f"{report.peak_megabytes:,.0f} MB",
        "device": report.device,
        "seed": str(report.seed),
        "quoth": report.quoth,
    }
