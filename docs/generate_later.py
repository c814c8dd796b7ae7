"""The later parts of the benchmarks page: identifiers, answers, serving and shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from generate_answers import (
    citations_section,
    cpu_latency_section,
    generation_section,
    negatives_section,
)
from generate_cluster import cluster_section
from generate_hybrid_sets import sets_section
from generate_pixar import (
    Table,
    gpu_latency_section,
    latency_section,
    phrases_section,
    three_section,
    trie_section,
)
from generate_pixar_more import keywords_section, robustness_section
from generate_pixar_quality import trained_section
from generate_serving import pressure_section, serving_section

SECTIONS: tuple[tuple[Callable[[dict[str, Any], Table], Iterable[str]], str], ...] = (
    (phrases_section, "phrases/results/phrases.json"),
    (trie_section, "trie/results/trie.json"),
    (latency_section, "pixar_latency/results/latency-cpu-5000000.json"),
    (gpu_latency_section, "pixar_latency/results/latency-cuda-5000000.json"),
    (trained_section, "pixar_quality/results/quality.json"),
    (sets_section, "pixar_quality/results/hybrid-sets.json"),
    (three_section, "pixar_quality/results/hybrid.json"),
    (robustness_section, "pixar_quality/results/robustness.json"),
    (keywords_section, "pixar_quality/results/keywords.json"),
    (generation_section, "generation/results/generation.json"),
    (cpu_latency_section, "generation/results/latency-cpu.json"),
    (negatives_section, "generation/results/negatives.json"),
    (citations_section, "citations/results/citations.json"),
    (serving_section, "serve/results/serve.json"),
    (pressure_section, "serve/results/pressure.json"),
    (cluster_section, "cluster/results/cluster.json"),
)


def later_sections(read_results: Callable[[str], dict[str, Any]], table: Table) -> Iterable[str]:
    """Draw them, each followed by an empty line."""
    for section, results in SECTIONS:
        yield from section(read_results(results), table)
        yield ""
