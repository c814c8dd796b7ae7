"""Fixed answers of the stand-in for the server: explanations, the status, and figures."""

from __future__ import annotations

from typing import Any


def part(label: str, value: float, *parts: dict[str, Any]) -> dict[str, Any]:
    """Make one line of an explanation."""
    return {"label": label, "value": value, "parts": list(parts)}


EXPLAINED = {
    "lexical": part(
        "lexical",
        9.25,
        part(
            "owl",
            5.75,
            part("title: 1x in 5 words, idf 1.204, weight 1.4", 3.5),
            part("anywhere: 1x in 52 words, idf 1.204, weight 1", 2.25),
        ),
        part("hunt", 2.5, part("anywhere: 1x in 52 words, idf 2.11, weight 1", 2.5)),
        part("night", 1.0, part("anywhere: 2x in 52 words, idf 0.405, weight 1", 1.0)),
    ),
    "dense": part("dense", 0.61, part("cosine with part 1 of the document", 0.61)),
    "hybrid": part(
        "fused",
        0.925,
        part("lexical: 9.250 scaled to 1.00, weight 0.55, rank 1", 0.55),
        part("dense: 0.610 scaled to 0.75, weight 0.40, rank 3", 0.3),
        part("generative: 2.400 scaled to 0.75, weight 0.10, rank 2", 0.075),
    ),
    "generative": part(
        "generative",
        2.4,
        part(
            'identifier "barn owl hunts by night"',
            2.4,
            part('phrase "barn owl": 1.3000 · 1.00 / 1.000', 1.3),
            part('phrase "hunts": 0.7000 · 1.00 / 1.000', 0.7),
            part('phrase "by night": 0.4000 · 1.00 / 1.000', 0.4),
        ),
    ),
}
ATTENTION = {
    "query": [{"word": "owl", "share": 0.52}, {"word": "hunt", "share": 0.31}],
    "document": [
        {"word": "owl", "share": 0.21},
        {"word": "hunts", "share": 0.17},
        {"word": "dusk", "share": 0.12},
        {"word": "vole", "share": 0.08},
        {"word": "snow", "share": 0.03},
    ],
}

STATUS: dict[str, Any] = {
    "collection": "/home/ada/notes.quoth",
    "documents": 1204,
    "passages": 5310,
    "fields": ["title", "body"],
    "filters": {
        "year": {"kind": "number", "value": 2018, "condition": "year >= 2018"},
        "lang": {"kind": "text", "value": "en", "condition": 'lang == "en"'},
    },
}
STATS: dict[str, Any] = {
    "stages": {
        "encode": {"count": 812, "p50": 0.0061, "p95": 0.0094, "p99": 0.0172},
        "search lexical": {"count": 1920, "p50": 0.0012, "p95": 0.0031, "p99": 0.0064},
        "search dense": {"count": 812, "p50": 0.0023, "p95": 0.0042, "p99": 0.0081},
        "fuse": {"count": 812, "p50": 0.0004, "p95": 0.0007, "p99": 0.0012},
        "answer": {"count": 0, "p50": 0.0, "p95": 0.0, "p99": 0.0},
    },
    "queue": {"length": 2, "capacity": 64},
    "memory_bytes": 412_000_000,
    "uptime_seconds": 5112.0,
    "requests": 2731,
    "errors": 3,
}
JOB: dict[str, Any] = {
    "state": "running",
    "kind": "learn",
    "what": "training",
    "done": 120,
    "total": 400,
    "seconds": 93.0,
    "message": "about 6 minutes in all",
}
