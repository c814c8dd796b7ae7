"""The part of the benchmarks page about learning without labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

Table = Callable[[Sequence[str], Iterable[Sequence[str]]], str]

STATES = ("before", "warm-up", "control", "rumbart", "acrobart", "rumbart~half")
"""The last is what `quoth learn` installs: the mean of the parameters before and after."""

RIVALS = ("gpl", "tsdae")
SEEN = "squad-train-slice"
"""The query generator was trained on questions of this set, so its rows prove nothing."""


def learn_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw every state of the encoder, alone and fused with BM25."""
    recipes = results["recipes"]
    rows = [row for row in results["rows"] if row["start"] == "pretrained"]
    yield "## Learning without labels"
    yield ""
    yield "`benchmarks.learn.generate`, `pack`, `run_gpu` (on one GPU), `report`. nDCG@10 on at"
    yield "most 500 test queries per set; no judgement and no test query was seen. *before*"
    yield "is all-MiniLM-L6-v2 as published: it was trained on labelled pairs of other collections,"
    yield "so nothing here starts from zero. *warm-up*: BM25's best passage of a pseudo-query is"
    yield f"the positive ({_size(recipes['warm-up'])}); from its best state, for the same number of"
    yield f"steps ({_size(recipes['rumbart'])}): *control*, the contrastive loss alone; *rumbart*;"
    yield "*acrobart*. Held-out pseudo-queries stop a run and choose its state, so that control,"
    yield "where it never improves, is the warm-up again. *rumbart~half*: the mean of parameters"
    yield "before and after RUMBArt, which `quoth learn` installs. One seed. A dash: not run."
    yield f"{SEEN} is shown for completeness: the query generator was trained on its questions,"
    yield "so it is part of no mean."
    for title, suffix in (("The encoder alone", ""), ("Fused with BM25, evenly", " + bm25")):
        yield ""
        yield f"**{title}**"
        yield ""
        yield table(["set", "queries", "BM25", *STATES, "half − before"], _states(rows, suffix))
    yield ""
    yield "Brackets: 95 % bootstrap interval over queries. The last line: the mean of sets that"
    yield "have all states. " + _counts(rows)
    yield ""
    yield "RUMBArt follows the pseudo-queries, and where real queries are unlike these it forgets"
    yield "what the encoder could do; the mean of before and after keeps most of what is gained and"
    yield "loses little. After fusing it is level in the mean: BM25 knew much of what the encoder"
    yield "learned from it. So `quoth learn` installs an encoder only where held-out queries of the"
    yield "collection itself show a gain."
    yield ""
    yield "**Other measures**: RR@10 and R@100 of BM25, and of encoder and fusion before and"
    yield "after (half)."
    yield ""
    yield table(["set", *_measure_heads()], _measures(rows))
    yield from _random_section(results, table)
    yield from _rival_section(rows, table)
    yield from _reread_section(rows, table)
    yield from _time_section(results, table)


def _states(rows: list[dict[str, Any]], suffix: str) -> list[list[str]]:
    names = ["bm25", *(state + suffix for state in STATES)]
    body = [
        [
            f"{row['set']} ({row['split']})",
            str(row["queries"]),
            *(_mean(row, name) for name in names),
            _difference(row, f"rumbart~half{suffix}", f"before{suffix}"),
        ]
        for row in rows
    ]
    honest = [row for row in rows if row["set"] != SEEN]
    whole = [row for row in honest if all(_value(row, name) is not None for name in names)]
    means = [sum(_value(row, name) or 0.0 for row in whole) / len(whole) for name in names]
    last = [f"**mean of {len(whole)}**", "", *(f"{mean:.3f}" for mean in means)]
    return [*body, [*last, f"{means[-1] - means[1]:+.3f}"]]


def _counts(rows: list[dict[str, Any]]) -> str:
    """Say on how many splits learning helped."""
    rows = [row for row in rows if row["set"] != SEEN]
    told = []
    for label, suffix in (("alone", ""), ("fused", " + bm25")):
        pairs = _pairs(rows, f"rumbart~half{suffix}", f"before{suffix}")
        up = sum(after > before for after, before in pairs)
        mean = sum(after - before for after, before in pairs) / len(pairs)
        told.append(f"{label}, it rises on {up} of {len(pairs)} splits, {100 * mean:+.1f} points")
    over = _pairs(rows, "rumbart~half + bm25", "bm25")
    below = sum(after < before for after, before in over)
    gain = 100 * sum(after - before for after, before in over) / len(over)
    told.append(
        f"fused after learning lies {gain:+.1f} points from BM25 in the mean, and below it on"
        f" {below} splits"
    )
    return "Over all splits but the seen one: " + "; ".join(told) + "."


def _pairs(rows: list[dict[str, Any]], first: str, second: str) -> list[tuple[float, float]]:
    both = ((_value(row, first), _value(row, second)) for row in rows)
    return [(a, b) for a, b in both if a is not None and b is not None]


def _measure_heads() -> list[str]:
    return [
        f"{measure} {name}"
        for measure in ("RR@10", "R@100")
        for name in ("BM25", "before", "after", "fused before", "fused after")
    ]


def _measures(rows: list[dict[str, Any]]) -> list[list[str]]:
    runs = ("bm25", "before", "rumbart~half", "before + bm25", "rumbart~half + bm25")
    return [
        [
            f"{row['set']} ({row['split']})",
            *(_mean(row, run, measure) for measure in ("RR@10", "R@100") for run in runs),
        ]
        for row in rows
    ]


def _random_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    rows = [row for row in results["rows"] if row["start"] == "random"]
    yield ""
    yield "**From an encoder that is no retriever** (the upper half of MiniLM's layers"
    yield "re-initialised, so what it knew of matching texts is gone; here learning may be called"
    yield "self-supervised but for the lower layers). RR@10, the encoder alone; warm-up: 400 steps."
    yield ""
    states = STATES[:-1]
    yield table(
        ["set", "queries", "BM25", *states],
        [
            [
                f"{row['set']} ({row['split']})",
                str(row["queries"]),
                *(_mean(row, name, "RR@10") for name in ("bm25", *states)),
            ]
            for row in rows
        ],
    )


def negatives_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw the warm-up's negatives side by side."""
    row = results["rows"][0]
    steps = row["training"][0]["steps"]
    yield "**Negatives of the warm-up** (the thesis' Table 6.1), from layers re-initialised alike,"
    yield f"{steps} steps on {row['set']}, {row['queries']} queries. *in_batch*: the whole batch of"
    yield "128, and one of the kind per query; *one_of_n*: five of the kind alone."
    yield ""
    arms = [run["arm"] for run in row["training"]]
    yield table(
        ["layout", "negatives", "nDCG@10", "RR@10", "held-out MRR@10", "seconds"],
        [
            [
                *arm.split(":")[1:],
                _mean(row, arm),
                _mean(row, arm, "RR@10"),
                f"{run['best'][1]:.3f}",
                f"{run['seconds']:.0f}",
            ]
            for arm, run in zip(arms, row["training"], strict=True)
        ],
    )


def _rival_section(rows: list[dict[str, Any]], table: Table) -> Iterable[str]:
    yield ""
    yield "**Instead of it** (`benchmarks.learn.rivals`): the same generator, passages and steps."
    yield "*gpl*: margins between the passage of a pseudo-query and one of BM25's others follow the"
    yield "generator's likelihoods, which stand in for GPL's cross-encoder; *tsdae*: a passage is"
    yield "rebuilt from its vector. Where a figure is that of *before*, none was better than"
    yield "the start, and the start was kept."
    yield ""
    states = ("before", "warm-up", "rumbart", "rumbart~half", *RIVALS)
    yield table(
        ["set", *states, *(f"{state} fused" for state in states)],
        [
            [
                row["set"],
                *(_mean(row, state) for state in states),
                *(_mean(row, f"{state} + bm25") for state in states),
            ]
            for row in rows
            if _value(row, "gpl") is not None
        ],
    )


def _reread_section(rows: list[dict[str, Any]], table: Table) -> Iterable[str]:
    yield ""
    yield "**Reranked by the query generator** (log p(query | passage), 0.3, the best 50, or as"
    yield "many as were read), before learning:"
    yield ""
    names = ("bm25", "bm25 reranked", "before + bm25", "before + bm25 reranked")
    yield table(
        ["set", "BM25", "reranked", "fused", "reranked", "fused, difference"],
        [
            [
                f"{row['set']} ({row['split']})",
                *(_mean(row, name) for name in names),
                _difference(row, names[3], names[2]),
            ]
            for row in rows
            if _value(row, names[1]) is not None
        ],
    )


def _time_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    yield ""
    yield "**Held-out pseudo-queries (MRR@10) and time**: up to five runs shared the GPU, so"
    yield "seconds are not those of a run alone."
    yield ""
    yield table(
        ["set", "start", "state", "steps", "first validation", "best", "seconds"],
        [
            [
                run["set"],
                run["start"],
                run["arm"],
                str(run["steps"]),
                f"{run['validations'][0][1]:.3f}",
                f"{run['best'][1]:.3f} at {run['best'][0]}",
                f"{run['seconds']:.0f}",
            ]
            for row in results["rows"]
            if row["split"] != "dl20"
            for run in row["training"]
        ],
    )


def cpu_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw what `quoth learn` did on a processor, by its own report and by test queries."""
    report = results["report"]
    yield "**As a user runs it, on a CPU** (`python -m benchmarks.learn.cpu`): a folder of"
    yield f"{report['num_documents']:,} text files ({results['set']}), `quoth learn` with"
    yield f"{results['minutes_asked']:.0f} minutes to fit into, {results['cores']} cores: it took"
    yield f"{results['minutes_taken']:.1f} minutes, and the encoder was"
    yield f"{'installed' if report['installed'] else 'kept aside'}. First what its own report says"
    yield "of held-out queries, without labels; then the set's test queries, which it never saw."
    yield ""
    rows = [
        [
            each["searcher"],
            f"{each['queries']} ({each['num_queries']})",
            each["measure"],
            f"{each['before']['mean']:.3f}",
            f"{each['after']['mean']:.3f}",
            _interval(each["difference"]["mean"], each["difference"]),
        ]
        for each in report["quality"]
        if each["searcher"] != "lexical"
    ]
    tests = {(each["run_name"], each["measure"]): each for each in results["test"]}
    for searcher in ("dense", "hybrid"):
        for measure in ("nDCG@10", "RR@10"):
            after = tests[f"{searcher} after", measure]
            contrast = after["contrast"]
            rows.append(
                [
                    searcher,
                    f"test queries ({results['test_queries']})",
                    measure,
                    f"{tests[f'{searcher} before', measure]['mean']:.3f}",
                    f"{after['mean']:.3f}",
                    _interval(contrast["difference"], contrast["interval"]),
                ]
            )
    yield table(["searcher", "queries", "measure", "before", "after", "difference"], rows)


def _interval(difference: float, interval: dict[str, Any]) -> str:
    return f"{difference:+.3f} [{interval['low']:+.3f}, {interval['high']:+.3f}]"


def found_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Say how many pseudo-queries find their own passage."""
    yield "**Pseudo-queries that find their own passage** among BM25's best 20, of those written by"
    yield "the query generator for each set:"
    yield ""
    abouts = {
        run["set"]: run["about"]
        for row in results["rows"]
        if row["start"] == "pretrained"
        for run in row["training"]
    }
    yield table(
        ["set", "written", "found"],
        [
            [name, f"{about['generated']:,}", f"{100 * about['found_by_bm25_in_20']:.0f} %"]
            for name, about in sorted(abouts.items())
        ],
    )


def examples_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Show pseudo-queries that were drawn at random."""
    yield "**Pseudo-queries** (`python -m benchmarks.learn.examples`): drawn at random with seed"
    yield f"{results['seed']}, none left out; temperature 0.7."
    for name, drawn in results["sets"].items():
        yield ""
        yield f"*{name}*"
        yield ""
        cells = [[_plain(each["passage"]) + " …", _plain(each["query"])] for each in drawn]
        yield table(["passage begins", "pseudo-query"], cells)


def _plain(text: str) -> str:
    return text.replace("|", "/")


def rerank_section(results: dict[str, Any], table: Table) -> Iterable[str]:
    """Draw searching with and without the generator's likelihood."""
    yield "## Reranking by p(query | passage)"
    yield ""
    yield "`python -m benchmarks.learn.rerank`, at most"
    yield f"{results['most_queries_per_set']} queries per set, the first 50 hits reranked."
    yield ""
    rows = []
    for row in results["rows"]:
        first = row["first"]
        plain = _find(row, first, "nDCG@10")
        again = _find(row, f"{first}-reranked", "nDCG@10")
        contrast = again["contrast"]
        rows.append(
            [
                row["set"],
                str(row["queries"]),
                first,
                f"{plain['mean']:.3f}",
                f"{again['mean']:.3f}",
                f"{contrast['difference']:+.3f}",
                f"{contrast['corrected_p_value']:.3f}",
            ]
        )
    yield table(["set", "queries", "first", "nDCG@10", "reranked", "difference", "p"], rows)


def _size(recipe: dict[str, Any]) -> str:
    return f"{recipe['steps']} of {recipe['batch_size']} queries"


def _value(row: dict[str, Any], run: str, measure: str = "nDCG@10") -> float | None:
    found = [r for r in row["results"] if (r["run_name"], r["measure"]) == (run, measure)]
    return float(found[0]["mean"]) if found else None


def _mean(row: dict[str, Any], run: str, measure: str = "nDCG@10") -> str:
    value = _value(row, run, measure)
    return "–" if value is None else f"{value:.3f}"


def _difference(row: dict[str, Any], run: str, baseline: str) -> str:
    """Return the difference with its interval, as `report` found it against that baseline."""
    found = [
        r
        for r in row["differences"]
        if (r["run_name"], r["baseline"], r["measure"]) == (run, baseline, "nDCG@10")
    ]
    if not found:
        return "–"
    contrast = found[0]["contrast"]
    return _interval(contrast["difference"], contrast["interval"])


def _find(row: dict[str, Any], run: str, measure: str) -> dict[str, Any]:
    return next(r for r in row["results"] if (r["run_name"], r["measure"]) == (run, measure))


@dataclass(frozen=True)
class MeanChanges:
    """Changes of nDCG@10 through learning, in points, averaged over test splits."""

    alone: float
    fused: float
    over_bm25: float
    num_up: int
    num_splits: int


def mean_changes(results: dict[str, Any]) -> MeanChanges:
    """Average what learning changed over the sets that the query generator had not seen."""
    rows = [row for row in results["rows"] if row["start"] == "pretrained" and row["set"] != SEEN]
    alone = _pairs(rows, "rumbart~half", "before")
    fused = _pairs(rows, "rumbart~half + bm25", "before + bm25")
    over = _pairs(rows, "rumbart~half + bm25", "bm25")
    means = [100 * sum(a - b for a, b in pairs) / len(pairs) for pairs in (alone, fused, over)]
    return MeanChanges(*means, sum(after > before for after, before in alone), len(alone))
