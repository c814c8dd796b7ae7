"""An invented learning report, as rich as a real one."""

from __future__ import annotations

from quoth.jobs.report.report import Estimate, LearningReport, Quality, Stage


def make_report(*, installed: bool = True, title: str = "notes.quoth") -> LearningReport:
    """Make a report of a collection whose passages hold markup."""
    return LearningReport(
        collection=title,
        quoth="0.2.0",
        seed=0,
        device="cpu, 2 threads",
        num_documents=5183,
        num_passages=7102,
        num_queries_by_kind={"pseudo-queries": 6000, "titles": 1200, "sentences": 2400},
        encoder_before="all-MiniLM-L6-v2",
        encoder_after="models/learned-1",
        installed=installed,
        reason="installed: hybrid +0.0210 (at least +0.0110), dense +0.0443; the rule: over the"
        " held-out queries, each kind counting the same, the RR@10 of hybrid search, which is what"
        " people see, must rise by more than 0.002, beyond chance (90%)",
        quality=_quality(),
        stages=_stages(),
        leak={
            "judged queries that were trained on": 0.0,
            "mean overlap of known items with the rest of their document": 0.4137,
            "lexical RR@10, known items, low overlap": 0.2213,
            "lexical RR@10, known items, high overlap": 0.8102,
            "mean overlap of pseudo-queries with their document": 0.7721,
        },
        identifiers={
            "documents": 4411.0,
            "written": 6000.0,
            "kept after round trip": 4730.0,
            "share kept": 0.7883,
        },
        supervision="No one labelled anything of this collection: all queries were made from its"
        " own documents; the shipped query generator was trained on public questions.",
        seconds=893.0,
        peak_megabytes=2310.0,
        examples=(
            (
                "Barn owls\nThe barn owl hunts by hearing: it finds voles under snow, at night, and"
                " <b>never</b> misses & rarely waits.",
                ("how do barn owls hunt at night", "can owls hear voles under the snow?"),
            ),
            ("Ravens <script>alert(1)</script> remember faces.", ("do ravens remember people",)),
        ),
    )


def _quality() -> tuple[Quality, ...]:
    return (
        _row(
            "lexical", "known items", 300, (0.512, 0.461, 0.560), (0.512, 0.461, 0.560), (0, 0, 0)
        ),
        _row(
            "dense",
            "known items, low overlap",
            141,
            (0.331, 0.262, 0.402),
            (0.402, 0.33, 0.475),
            (0.071, 0.028, 0.115),
        ),
        _row(
            "dense",
            "known items, high overlap",
            159,
            (0.588, 0.52, 0.651),
            (0.603, 0.536, 0.668),
            (0.015, -0.012, 0.043),
        ),
        _row(
            "dense",
            "known items",
            300,
            (0.467, 0.418, 0.515),
            (0.509, 0.459, 0.557),
            (0.042, 0.017, 0.068),
        ),
        _row(
            "dense",
            "pseudo-queries",
            280,
            (0.641, 0.59, 0.69),
            (0.688, 0.64, 0.735),
            (0.047, 0.019, 0.075),
        ),
        _row(
            "hybrid",
            "known items",
            300,
            (0.561, 0.511, 0.608),
            (0.579, 0.53, 0.627),
            (0.018, -0.002, 0.039),
        ),
        _row(
            "hybrid",
            "pseudo-queries",
            280,
            (0.702, 0.655, 0.748),
            (0.726, 0.68, 0.771),
            (0.024, 0.004, 0.044),
        ),
        Quality("dense", "labelled pairs", 40, "RR@10", None, Estimate(0.61, 0.47, 0.74), None),
    )


def _row(
    searcher: str,
    queries: str,
    num_queries: int,
    before: tuple[float, float, float],
    after: tuple[float, float, float],
    difference: tuple[float, float, float],
) -> Quality:
    estimates = Estimate(*before), Estimate(*after), Estimate(*difference)
    return Quality(searcher, queries, num_queries, "RR@10", *estimates)


def _stages() -> tuple[Stage, ...]:
    warm = tuple(
        (step, 0.46 + 0.05 * (1 - 0.6 ** (step / 20)) - 0.004 * (step % 40 == 20))
        for step in range(0, 120, 10)
    )
    second = ((0, 0.51), (50, 0.518), (100, 0.523), (150, 0.521), (200, 0.519))
    return (
        Stage("vectors before", 142.0, 1204.0, 0, 0, (), "all is encoded"),
        Stage("write pseudo-queries", 305.5, 1810.0, 0, 0, (), "all are written"),
        Stage("warm-up", 214.0, 2310.0, 110, 110, warm, "two checks brought nothing better"),
        Stage("distil", 96.4, 2290.0, 200, 100, second, "all steps are done"),
        Stage("encode", 121.0, 1204.0, 0, 0, (), "all is encoded"),
        Stage("judge", 14.1, 900.0, 0, 0, (), "all are judged"),
    )
