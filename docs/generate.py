"""Write the pages made from code and results: README, architecture and benchmarks."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from generate_cluster import capacity_table, coefficients_table, extrapolation, fit, trial_note
from generate_headlines import evidence_table, summary_section
from generate_later import later_sections
from generate_learning import (
    cpu_section,
    examples_section,
    found_section,
    learn_section,
    negatives_section,
    rerank_section,
)

DOCS = Path(__file__).parent
NOTICE = "<!-- made by docs/generate.py from templates and benchmarks/*/results -->\n"
BENCHMARKS = DOCS.parent / "benchmarks"


def main() -> None:
    """Write all pages."""
    for page, content in pages().items():
        page.write_text(content)


def pages() -> dict[Path, str]:
    """Return every generated page with its content."""
    quality = read_results("lexical/results/quality.json")
    speed = read_results("lexical/results/speed.json")
    hybrid = read_results("hybrid/results/quality.json")
    glow = read_results("glow/results/glow.json")
    architecture = (DOCS / "architecture.template.md").read_text()
    readme = (DOCS / "readme.template.md").read_text()
    return {
        DOCS / "architecture.md": NOTICE
        + architecture.replace("{{layers}}", layer_table()).replace("{{folders}}", folder_table()),
        DOCS / "scale.md": NOTICE + scale_page(),
        DOCS / "benchmarks.md": NOTICE + benchmarks_page(quality, speed, hybrid, glow),
        DOCS.parent / "README.md": NOTICE
        + readme.replace("{{evidence}}", evidence_table(read_results, table)),
    }


def scale_page() -> str:
    """Fill in what the model of capacity says."""
    cluster = read_results("cluster/results/cluster.json")
    found = fit(
        cluster,
        speed=read_results("lexical/results/speed.json"),
        dense=read_results("dense/results/recall.json"),
        encode=read_results("encode/results/encode.json"),
        gpu=read_results("encode/results/gpu.json"),
    )
    page = (DOCS / "scale.template.md").read_text()
    return (
        page.replace("{{coefficients}}", coefficients_table(found, table))
        .replace("{{capacity}}", capacity_table(found, table))
        .replace("{{extrapolation}}", extrapolation(cluster))
        .replace("{{trial}}", trial_note(cluster))
    )


def read_results(name: str) -> dict[str, Any]:
    """Read a committed result file."""
    content: dict[str, Any] = json.loads((BENCHMARKS / name).read_text())
    return content


def layer_table() -> str:
    """Draw the table of rooms."""
    layers = tomllib.loads((DOCS / "layers.toml").read_text())
    return table(
        ["room", "what it does", "may import", "torch"],
        [
            [f"`{name}`", room["says"], ", ".join(room["may_import"]), room["torch"]]
            for name, room in layers["rooms"].items()
        ],
    )


def folder_table() -> str:
    """Draw the table of what folders inside rooms do and may import."""
    layers = tomllib.loads((DOCS / "layers.toml").read_text())
    return table(
        ["folder", "what it does", "may import"],
        [
            [f"`{name}`", folder["says"], ", ".join(folder["may_import"]) or "nothing"]
            for name, folder in layers["folders"].items()
        ],
    )


def benchmarks_page(
    quality: dict[str, Any], speed: dict[str, Any], hybrid: dict[str, Any], glow: dict[str, Any]
) -> str:
    """Draw the tables of the benchmark results that are there."""
    return "\n".join(
        [
            "# Benchmarks",
            "",
            "Collections differ in licence and origin; each is cited in its own source note. Speed"
            " is given as ratios of systems measured in turns in one process, since machines are"
            " noisy; absolute figures belong to the machine named.",
            "",
            *summary_section(read_results, table),
            "",
            *quality_section(quality),
            "",
            *speed_section(speed),
            "",
            *hybrid_section(hybrid),
            "",
            *encode_section(
                read_results("encode/results/encode.json"), read_results("encode/results/gpu.json")
            ),
            "",
            *recall_section(read_results("dense/results/recall.json")),
            "",
            *glow_section(glow),
            "",
            *learn_section(read_results("learn/results/learn.json"), table),
            "",
            *negatives_section(read_results("learn/results/negatives.json"), table),
            "",
            *cpu_section(read_results("learn/results/cpu.json"), table),
            "",
            *found_section(read_results("learn/results/learn.json"), table),
            "",
            *examples_section(read_results("learn/results/examples.json"), table),
            "",
            *rerank_section(read_results("learn/results/rerank.json"), table),
            "",
            *later_sections(read_results, table),
        ]
    )


def quality_section(results: dict[str, Any]) -> Iterable[str]:
    """Draw BM25 quality: title and text joined, against all fields with the default boosts."""
    yield "## BM25 quality"
    yield ""
    yield "`python -m benchmarks.lexical.quality`. Both sides are Quoth with default settings, no"
    yield "training, no labels. *joined*: one field, title and text. *fields*: every field of the"
    yield "collection, the whole document at weight 1 and each field but the body at 0.3 on top."
    yield "Brackets: 95 % bootstrap interval of the difference; † significant at 0.05 (paired"
    yield "randomisation, Holm over the row's three measures)."
    yield ""
    rows = []
    for row in results["rows"]:
        cells = [f"{row['set']} ({row['split']})", f"{row['documents']:,}", f"{row['queries']:,}"]
        for measure in results["measures"]:
            joined = _find(row["results"], "joined", measure)
            fields = _find(row["results"], "fields", measure)
            cells += [f"{joined['mean']:.3f}", f"{fields['mean']:.3f}"]
            if measure == "nDCG@10":
                contrast = fields["contrast"]
                mark = " †" if contrast["significant"] else ""
                low, high = contrast["interval"]["low"], contrast["interval"]["high"]
                cells.append(f"{contrast['difference']:+.3f} [{low:+.3f}, {high:+.3f}]{mark}")
        rows.append(cells)
    yield table(
        [
            *("set", "documents", "queries", "nDCG@10 joined", "fields", "difference"),
            *("RR@10 joined", "fields", "R@100 joined", "fields"),
        ],
        rows,
    )


def speed_section(results: dict[str, Any]) -> Iterable[str]:
    """Draw index time, memory and query speed beside plain tantivy and bm25s."""
    yield "## Lexical speed and memory"
    yield ""
    yield f"`python -m benchmarks.lexical.speed`, {results['machine']}, {results['rounds']} rounds"
    yield "in turns, one query at a time, k = 10. All systems see the same terms. *zipf-N*:"
    yield "N made-up passages of about 60 words over 300,000 Zipfian words. Building Quoth"
    yield "includes the durable store, passages, filters, statistics and checksums; tantivy and"
    yield "bm25s build their index alone, so their build times are a lower bound, not a rival."
    yield ""
    yield table(
        ["corpus", "system", "build s", "peak MB", "disk MB", "p50 ms", "p99 ms", "× tantivy"],
        [
            [
                row["corpus"],
                system,
                f"{row['build'][system]['seconds']:.0f}",
                f"{row['build'][system]['peak_mb']:,.0f}",
                f"{row['build'][system]['disk_mb']:,.0f}",
                f"{latency['p50_ms']:.2f}",
                f"{latency['p99_ms']:.2f}",
                f"{row['throughput_over_tantivy'][system]:.2f}",
            ]
            for row in results["rows"]
            for system, latency in row["latency"].items()
        ],
    )
    yield ""
    yield "The last column is queries per second over plain tantivy's, the median over rounds. The"
    yield "zipf rows were measured before docids were cached, the last change to searching."


def hybrid_section(results: dict[str, Any]) -> Iterable[str]:
    """Draw BM25, vectors and their fusion on every collection."""
    yield "## BM25, vectors and their fusion"
    yield ""
    yield "`python -m benchmarks.hybrid.quality`. nDCG@10 on at most 1,000 test queries per set;"
    yield "*dense* is all-MiniLM-L6-v2 as published, one vector per passage, no training here (the"
    yield "model has seen labelled data of other collections). *hybrid* is the sum of the scores,"
    yield "each over its usual range; ranges and weights come from held-out stretches of the"
    yield "documents, without labels. *against the better*: hybrid minus the better single"
    yield "searcher. Vectors were encoded on a GPU in bf16 and checked against the CPU's. The way"
    yield "to scale scores was chosen while looking at these sets."
    yield ""
    rows, sums = [], [0.0] * 4
    for row in results["rows"]:
        means = [
            _find(row["results"], n, "nDCG@10")["mean"] for n in ("lexical", "dense", "hybrid")
        ]
        values = [*means, means[2] - max(means[:2])]
        sums = [total + value for total, value in zip(sums, values, strict=True)]
        share = row["calibration"]["weights"]["dense"]
        rows.append(
            [
                f"{row['set']} ({row['split']})",
                f"{row['queries']:,}",
                *_shown(values),
                f"{share:.1f}",
            ]
        )
    mean = [total / len(results["rows"]) for total in sums]
    rows.append(["**mean**", "", *_shown(mean), ""])
    yield table(
        ["set", "queries", "lexical", "dense", "hybrid", "against the better", "share of dense"],
        rows,
    )


def encode_section(results: dict[str, Any], on_gpu: dict[str, Any]) -> Iterable[str]:
    """Say how fast passages are encoded, and that their vectors are as good."""
    speed, quality = results["speed"], results["quality"]
    rates = speed["passages_per_second"]
    scores = quality["nDCG@10"]
    yield "## Encoding"
    yield ""
    yield f"`python -m benchmarks.encode.speed`, {results['machine']}, in turns, with other work on"
    yield f"the machine: {speed['passages']:,} passages, Quoth in bf16"
    yield f"{rates['quoth']:.0f} per second, sentence-transformers' default"
    yield f"{rates['sentence-transformers']:.0f}; the median ratio over chunks is"
    yield f"**{speed['ratio']:.1f}**. {results['encoder']} on {quality['set']} (test), one vector"
    yield f"per document: nDCG@10 {scores['quoth']:.4f} by Quoth's vectors,"
    yield f"{scores['sentence-transformers']:.4f} by sentence-transformers' (published: 0.645)."
    speed = on_gpu["speed"]
    rates = speed["passages_per_second"]
    yield ""
    yield f"On a GPU (`python -m benchmarks.encode.gpu`, {on_gpu['device']}, torch"
    yield f"{on_gpu['torch']}), tokenising included, in turns: {rates['quoth']:,.0f} per second"
    yield f"against {rates['sentence-transformers']:,.0f}, median ratio **{speed['ratio']:.1f}**;"
    yield f"the least cosine between their vectors is {speed['least_cosine_between_them']:.5f}."
    yield "Quoth keeps torch from attention kernels that are planned anew for every"
    yield "length, and computes in bf16."


def recall_section(results: dict[str, Any]) -> Iterable[str]:
    """Draw the graph beside exact search over the same vectors."""
    yield "## The HNSW graph beside exact search"
    yield ""
    yield f"`python -m benchmarks.dense.recall`, {results['machine']}, one query at a time, in"
    yield f"turns. {results['vectors']:,} vectors of the passages of all collections joined"
    yield f"({results['documents']:,} documents), {results['queries']:,} of their own queries."
    yield f"*recall@{results['k']}*: share of the exact search's best {results['k']} documents that"
    yield "the graph finds; *worst*: of one query. *exact of unstored*: share of the best documents"
    yield "by the vectors as they came (in half precision, so fp16 cannot lose any) that exact"
    yield "search finds in the stored ones. The graph is built with"
    yield f"{results['neighbours']} links and depth {results['build_depth']}; the default depth of"
    yield f"search is {results['default_depth']}. Up to `dense.exact_limit` vectors Quoth searches"
    yield "exactly and builds no graph."
    yield ""
    rows = []
    for row in results["rows"]:
        for each in row["depths"]:
            is_default = each["depth"] == results["default_depth"]
            rows.append(
                [
                    row["storage"],
                    f"**{each['depth']}**" if is_default else str(each["depth"]),
                    f"{each['recall']:.4f}",
                    f"{each['least_recall']:.1f}",
                    f"{each['ratio']:.1f}",
                    f"{row['kept_of_unstored']:.4f}",
                    f"{row['megabytes']:,.0f}",
                ]
            )
    yield table(
        [
            *("storage", "search depth", f"recall@{results['k']}", "worst"),
            *("queries/s over exact", "exact of unstored", "MB"),
        ],
        rows,
    )


def glow_section(results: dict[str, Any]) -> Iterable[str]:
    """Draw the trials of weighted attention."""
    yield "## Weighted attention (GLOW)"
    yield ""
    yield "`python -m benchmarks.glow.pack`, then `benchmarks.glow.run_gpu` on a GPU, then"
    yield "`benchmarks.glow.report`. Three-layer dual encoders from the lowest layers of MiniLM,"
    yield "trained on natural pairs nobody labelled, judged on 14 sets (at most 300 queries and"
    yield "5,000 documents each; not comparable with the tables above). Differences to `none` are"
    yield "paired by query after averaging over seeds; p by randomisation, Holm-corrected."
    for experiment in results["experiments"]:
        yield ""
        settings = experiment["settings"]
        yield "**" + ", ".join(f"{key} {value}" for key, value in settings.items()) + "**"
        yield ""
        against = {c["variant"]: c for c in experiment["comparisons"] if c["against"] == "none"}
        yield table(
            ["weighting", "seeds", "nDCG@10", "RR@10", "difference in nDCG@10", "p"],
            [
                [
                    variant["variant"],
                    str(len(variant["seeds"])),
                    f"{variant['nDCG@10']:.4f}",
                    f"{variant['RR@10']:.4f}",
                    *_difference(against.get(variant["variant"])),
                ]
                for variant in sorted(experiment["variants"], key=lambda v: -v["nDCG@10"])
            ],
        )
    yield ""
    yield "The paper's gain over `none` (+7 % MRR@10) does not appear in this setting: weights as"
    yield "published hurt (row, column), and so do idf alone, the released code's constants,"
    yield "subword statistics and one field embedding; milder weights hurt less, with mean one they"
    yield "are level with `none`, and ramping in did not rescue the published ones. From"
    yield "re-initialised layers row is level too: what hurts is to impose weights on a network"
    yield "that was trained without. The paper's own loss with separate towers and [CLS] did not"
    yield "train in 600 steps at all (measured before likely duplicates were judged from the mean"
    yield "of the queries). So the default is `none`."
    yield "`merge` is level with `none` as well, and takes five times as long (seed 0; the others"
    yield "were trained beside other work on the same GPU). Not tried: far longer training."


def _difference(comparison: dict[str, Any] | None) -> list[str]:
    if comparison is None:
        return ["", ""]
    found = comparison["nDCG@10"]
    interval = f"[{found['low']:+.4f}, {found['high']:+.4f}]"
    return [f"{found['difference']:+.4f} {interval}", f"{found['p_holm']:.3f}"]


def _shown(values: Sequence[float]) -> list[str]:
    return [*(f"{value:.3f}" for value in values[:3]), f"{values[3]:+.3f}"]


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Draw a Markdown table."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def _find(results: list[dict[str, Any]], run: str, measure: str) -> dict[str, Any]:
    return next(r for r in results if (r["run_name"], r["measure"]) == (run, measure))


if __name__ == "__main__":
    main()
