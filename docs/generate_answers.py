"""The parts of the benchmarks page about generated text and cited answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Table = Callable[[Sequence[str], Iterable[Sequence[str]]], str]


def generation_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw how continuations differ between systems."""
    yield "## Continuing texts with phrases of other documents"
    yield ""
    yield f"`python -m benchmarks.generation.measure` on {results['device']}, torch"
    yield f"{results['torch']}, {results['dtype']}. Prefixes of 32 subwords of held-out texts,"
    yield "continued by 128; phrases of 2 to 8 subwords from 32 stretches of 128 words that BM25"
    yield f"finds by the prefix. Judge: {results['judge']}; MAUVE with factor 2, mean over five"
    yield "seeds of k-means ± their deviation; ppl under the untouched model, averaged over texts;"
    yield "*units*: subwords or phrases per continuation; *in phrases*: share of subwords that were"
    yield "written as part of a phrase or static token."
    for domain in dict.fromkeys(row["domain"] for row in results["rows"]):
        yield from _domain(results, domain, table)


def _domain(results: dict[str, Any], domain: str, table: Table) -> Iterable[str]:
    rows = [row for row in results["rows"] if row["domain"] == domain]
    plain = results["plain_perplexity"].get(domain, {})
    timed = results["latency"].get(domain, {})
    phrases = results["phrases_per_prompt"].get(domain, 0)
    yield ""
    yield f"{domain}, {rows[0]['texts']} prompts, {phrases:,.0f} phrases each; the references have"
    yield f"ppl {rows[0]['reference_perplexity']:.1f}:"
    yield ""
    yield table(
        [
            *("system", "method", "MAUVE", "rep-2", "rep-3", "rep-4", "diversity", "ppl"),
            *("units", "bytes/unit", "in phrases"),
        ],
        [_cells(row) for row in rows],
    )
    yield ""
    yield table(
        ["system", "ppl of references, no phrases", "decode s", "encode phrases s"],
        [
            [
                name,
                f"{plain[name]:.2f}" if name in plain else "–",
                f"{own['decode_median']:.3f}",
                f"{own['prepare_median']:.3f}",
            ]
            for name, own in timed.items()
        ],
    )


def _cells(row: dict[str, Any]) -> list[str]:
    score = row["mauve"]
    return [
        row["system"],
        row["method"],
        f"{100 * score['mean']:.1f} ± {100 * score['deviation']:.1f}" if score else "–",
        *(f"{100 * row['rep'][n]:.1f}" for n in ("2", "3", "4")),
        f"{100 * row['diversity']:.1f}",
        f"{row['perplexity']['mean']:.2f}",
        f"{row['units']['mean']:.1f}",
        f"{row['bytes_per_unit']:.2f}",
        f"{row['share_in_phrases']:.0%}",
    ]


def citations_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw how well answers are supported, and whether they are right."""
    thresholds = results["thresholds"]
    yield "## Cited answers"
    yield ""
    yield "`python -m benchmarks.citations.run` and `report`. Citation recall and precision by"
    yield f"ALCE's definitions under two judges: overlap of words ({thresholds['overlap']} of the"
    yield "content words and every number and name) and similarity of sentences by MiniLM (cosine"
    yield f"{thresholds['similarity']:g}); neither is a model of entailment, and quoted words"
    yield "satisfy overlap by construction, whatever they say together. EM: share of short"
    yield "answers that occur. Brackets: 95 % bootstrap intervals over questions. *plain*: the same"
    yield "model without phrases, which cites nothing; *refused*: answerable questions to which it"
    yield "wrote that the documents do not say. Abstaining is switched off: *quoth* answers every"
    yield "question, beginning with a phrase, and splices no sentences; *free* may do otherwise."
    yield "*quoth* ran on two CPU cores in bf16, the others on one H200 in fp32, all with the same"
    yield "weights. A whole quoted sentence is similar to itself: that its citations hold says that"
    yield "nothing was made up or put together wrongly; EM and F1 say whether it was the right one."
    yield "Where *plain* refuses, its EM says little. The two rules of *quoth* were thought of"
    yield "after reading some of *free*'s answers; their strength was set on training questions."
    yield ""
    yield table(
        [
            *("set", "system", "questions", "recall overlap", "precision overlap"),
            *("recall similarity", "precision similarity", "EM", "F1", "ROUGE-L", "exact"),
            *("refused", "abstention AUROC"),
        ],
        [
            [
                row["set"],
                row["system"],
                str(row["answerable"]),
                *(
                    _interval(row.get(f"{judge}_{measure}"))
                    for judge in ("overlap", "similarity")
                    for measure in ("recall", "precision")
                ),
                *(_interval(row.get(measure)) for measure in ("em", "f1", "rouge_l")),
                "–" if row["quotation_exactness"] is None else f"{row['quotation_exactness']:.0%}",
                f"{row['refused']:.0%}",
                _auroc(row["abstention"]),
            ]
            for row in results["rows"]
        ],
    )


def _interval(score: dict[str, float] | None) -> str:
    if score is None:
        return "–"
    return f"{100 * score['mean']:.1f} [{100 * score['low']:.1f}, {100 * score['high']:.1f}]"


def _auroc(score: dict[str, float] | None) -> str:
    return (
        "–" if score is None else f"{score['auroc']:.3f} [{score['low']:.3f}, {score['high']:.3f}]"
    )
