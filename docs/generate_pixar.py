"""The parts of the benchmarks page about phrases, the trie and shortlists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Table = Callable[[Sequence[str], Iterable[Sequence[str]]], str]


def phrases_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw how vocabularies are trained and how texts are cut."""
    yield "## Phrase vocabularies"
    yield ""
    yield f"`python -m benchmarks.phrases.train`, {results['machine']}, with other work on the"
    yield "machine. 1.2 million real queries, questions and titles; *generated*: identifiers from"
    yield "the first words of one text and the last words of another. Rates are per second of"
    yield "processor time; sizes are upper bounds, since phrases that are used too rarely go at the"
    yield "end. Every vocabulary covers every text, and no phrase ends inside a word."
    yield ""
    yield table(
        [
            *("vocabulary", "phrases", "texts", "train s", "of processor", "peak MB"),
            *("cut MB/s", "mean length", "p99"),
        ],
        [
            [
                row["system"] + (", generated" if row["generated"] else ""),
                f"{row['size']:,}",
                f"{row['texts']:,}",
                f"{row['train_seconds']:.0f}",
                f"{row['train_processor_seconds']:.0f}",
                f"{row['peak_mb']:,}",
                f"{row['cut_mb_per_second']:.1f}" if "cut_mb_per_second" in row else "–",
                f"{row['mean_length']:.2f}" if "mean_length" in row else "–",
                f"{row['p99_length']:.0f}" if "p99_length" in row else "–",
            ]
            for row in results["rows"]
        ],
    )


def trie_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw the size of the trie and the time of decoding."""
    build = results["build"]
    yield "## The trie and decoding"
    yield ""
    yield f"`python -m benchmarks.trie.run`, {results['machine']}, with other work on the machine."
    yield f"{build['identifiers']:,} identifiers spliced from real texts, each"
    yield f"{build['mean_length']:.1f} of {build['phrases']:,} phrases: built in"
    yield f"{build['build_seconds']:.0f} s, {build['trie_over_raw']:.2f} times the bytes of the"
    yield "phrase ids alone, and postings"
    yield f"{build['postings_over_raw']:.2f} times on top; 20,000 more identifiers and 1,000 owners"
    yield f"less take {build['change_seconds']:.1f} s. Decoding: the best {results['depth']} of"
    yield f"{results['slots']} slots and a shortlist; recall is against the exact ones."
    yield ""
    yield table(
        ["shortlist", "order", "method", "p50 ms", "p99 ms", "recall@10", "recall@100"],
        [
            [
                f"{row['shortlist']:,}",
                row["order"],
                row["method"],
                f"{row['wall_p50_ms']:.1f}",
                f"{row['wall_p99_ms']:.1f}",
                f"{row['recall_10']:.2f}",
                f"{row['recall_100']:.2f}",
            ]
            for row in results["decoding"]
        ],
    )
    yield ""
    yield "Exact decoding misses the aim of 5 ms at this size; skim, which reads the lists of the"
    yield "best phrases first and stops, meets it with 20,000 phrases. Collections of up to a few"
    yield "hundred thousand identifiers are decoded exactly by default."


def latency_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw the ways around the full softmax."""
    rows, width = results["shape"]
    yield "## Shortlists over a head of millions"
    yield ""
    yield f"`python -m benchmarks.pixar_latency.run`, {results['machine']}, {rows:,} × {width}"
    yield f"untrained rows, {results['slots']} slots, one query at a time, in turns; the machine's"
    yield f"load was {results['load before']:.1f} before it began, so only ratios mean something."
    yield "*full_torch*: the product in bf16 and its best 100; *centroids_worst*: 100,000 rows that"
    yield "no two lists share. Times in ms, means."
    yield ""
    yield table(
        ["method", "rows", "shortlist", "score", "p99 of both", "times faster than full_torch"],
        [
            [
                row["method"],
                f"{row['stages']['rows']['mean']:,.0f}",
                f"{row['stages']['shortlist']['mean']:.1f}",
                f"{row['stages']['score']['mean']:.1f}",
                f"{row['stages']['shortlist']['p99'] + row['stages']['score']['p99']:.0f}",
                f"{row['times_faster_than_full_torch']:.1f}",
            ]
            for row in results["methods"]
        ],
    )
