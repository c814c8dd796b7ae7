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
    yield f"`python -m benchmarks.trie.run`, {results['machine']}, two cores."
    yield f"{build['identifiers']:,} identifiers spliced from real texts, each"
    yield f"{build['mean_length']:.1f} of {build['phrases']:,} phrases: built in"
    yield f"{build['build_seconds']:.0f} s, {build['trie_over_raw']:.2f} times the bytes of the"
    yield "phrase ids alone, and postings"
    yield f"{build['postings_over_raw']:.2f} times on top; 20,000 more identifiers and 1,000 owners"
    yield f"less take {build['change_seconds']:.1f} s. Decoding: the best {results['depth']} of"
    yield f"{results['slots']} slots and a shortlist; recall is against the exact ones."
    loads = [row["load"] for row in results["decoding"]]
    yield "*processor*: milliseconds of the asking thread itself, p50;"
    yield f"{min(loads):.1f} to {max(loads):.1f} processes wanted to run at once."
    yield ""
    yield table(
        [
            *("shortlist", "order", "method", "threads", "processor", "p50 ms", "p99 ms"),
            *("recall@10", "recall@100"),
        ],
        [
            [
                f"{row['shortlist']:,}",
                row["order"],
                row["method"],
                str(row["threads"]),
                f"{row['cpu_p50_ms']:.1f}",
                f"{row['wall_p50_ms']:.1f}",
                f"{row['wall_p99_ms']:.1f}",
                f"{row['recall_10']:.2f}",
                f"{row['recall_100']:.2f}",
            ]
            for row in results["decoding"]
        ],
    )
    yield ""
    yield from _judge_decoding(results["decoding"])


def _judge_decoding(rows: Sequence[dict[str, Any]], aim: float = 5.0) -> Iterable[str]:
    """Say what decoding with the smaller shortlist takes, against the aim."""
    least = min(row["shortlist"] for row in rows)
    small = [row for row in rows if row["shortlist"] == least]
    for method, threads in (("exact", 1), ("exact", 2), ("skim", 1)):
        own = [r["wall_p50_ms"] for r in small if (r["method"], r["threads"]) == (method, threads)]
        met = sum(each < aim for each in own)
        yield f"With {least:,} phrases, {method} takes {min(own):.1f} to {max(own):.1f} ms in"
        yield f"{threads} thread{'s' if threads > 1 else ''} (p50); the aim of {aim:.0f} ms is met"
        yield f"in {met} of {len(own)} orders."


def latency_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw the ways around the full softmax."""
    rows, width = results["shape"]
    yield "## Shortlists over a head of millions"
    yield ""
    yield f"`python -m benchmarks.pixar_latency.run`, {results['machine']}, {rows:,} × {width}"
    yield f"untrained rows, {results['slots']} slots, one query at a time, in turns; the machine's"
    yield f"load was {results['load before']:.1f} before it began, so only ratios mean something."
    yield "*full_torch*: the product in bf16 and its best 100; *centroids_worst*: 100,000 rows that"
    yield "no two lists share. Each method takes turns with *full_torch*, which ratios are against:"
    yield "they are of medians, since other work began while the later methods ran. Times in ms,"
    yield "means; *of the encoder*: encode, shortlist and score over encode alone. Rows here are"
    yield "untrained: what a shortlist misses is measured by `benchmarks.pixar_quality`."
    yield ""
    yield _latency_table(results, table)


def gpu_latency_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw the same on a GPU."""
    rows, width = results["shape"]
    yield "### On a GPU"
    yield ""
    yield f"`python -m benchmarks.pixar_latency.run --device cuda`, {results['machine']},"
    yield f"{rows:,} × {width}, one query at a time, plain torch, nothing else running. The paper"
    yield "has 10.6 times for its centroids."
    yield ""
    yield _latency_table(results, table)


def _latency_table(results: dict[str, Any], table: Table) -> str:
    return table(
        ["method", "rows", "shortlist", "score", "p99 of both", "times faster", "of the encoder"],
        [
            [
                row["method"],
                f"{row['stages']['rows']['mean']:,.0f}",
                f"{row['stages']['shortlist']['mean']:.1f}",
                f"{row['stages']['score']['mean']:.1f}",
                f"{row['stages']['shortlist']['p99'] + row['stages']['score']['p99']:.0f}",
                f"{row['times_faster_p50']:.1f}",
                f"{row['whole_over_encode_p50']:.2f}",
            ]
            for row in [
                *(row for row in results["methods"] if row["method"] != "full_torch"),
                next(row for row in results["methods"] if row["method"] == "full_torch"),
            ]
        ],
    )


def three_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw what a model that was trained on a CPU adds to the hybrid of two."""
    yield "## Generated identifiers, trained on a CPU"
    yield ""
    yield "`python -m benchmarks.pixar_quality.hybrid`: `quoth train pixar` in the time it takes by"
    yield "default on two cores, through `Engine`; identifiers are pseudo-queries by which BM25"
    yield "finds their passage. *hybrid n*: the share n of the generative side."
    for row in results["rows"]:
        report = row["report"]
        yield ""
        yield f"{row['set']} ({row['split']}), {row['queries']} queries:"
        yield f"{report['num_identifiers']:,} identifiers of {report['num_documents']:,} documents"
        yield f"cut into {report['num_phrases']:,} phrases, {report['mean_length']:.1f} each;"
        yield f"{report['steps']} steps of {report['batch_size']} in {row['minutes']:.0f} minutes."
        yield ""
        names = list(dict.fromkeys(each["run_name"] for each in row["results"]))
        yield table(
            ["searcher", *results["measures"]],
            [
                [
                    name,
                    *(
                        f"{_mean(row['results'], name, measure):.3f}"
                        for measure in results["measures"]
                    ),
                ]
                for name in names
            ],
        )
    yield ""
    yield "Minutes on a CPU are far too few: the loss has hardly begun to fall, and the hybrid of"
    yield "two gains nothing from a third side, so that has no share by default. Trained for longer"
    yield "(above) it gains a little."


def _mean(rows: list[dict[str, Any]], run: str, measure: str) -> float:
    return next(
        float(row["mean"]) for row in rows if (row["run_name"], row["measure"]) == (run, measure)
    )
