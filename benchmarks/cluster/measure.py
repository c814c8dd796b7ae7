"""What is measured of collections that are built: latency in turns, memory, and exactness."""

from __future__ import annotations

import functools
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benchmarks.lexical.quality import read
from benchmarks.serve.load import quantiles_ms
from quoth.collection.shards import create_shards, open_shards
from quoth.engine.engine import Engine
from quoth.evaluation.files import read_queries
from quoth.records import Query, Run
from quoth.shards.engine import ShardedEngine
from quoth.shards.ray_serve import open_from_cluster

Ask = Callable[[str], object]
TURN = 25  # queries before the next system has its turn
_IDLE_SECONDS = 15.0
_DEPTH = 100
_SHOWN = 20  # queries per set that are searched one by one


def time_in_turns(systems: dict[str, Ask], queries: Sequence[str]) -> dict[str, Any]:
    """Ask all systems the same queries, some at a time, so that a slow minute hits all of them."""
    times: dict[str, list[float]] = {name: [] for name in systems}
    for ask in systems.values():
        for text in queries[:TURN]:  # warm up
            ask(text)
    for at in range(0, len(queries), TURN):
        for name, ask in systems.items():
            times[name] += [_timed(ask, text) for text in queries[at : at + TURN]]
    return {name: {"queries": len(own), **quantiles_ms(own)} for name, own in times.items()}


def _timed(ask: Ask, text: str) -> float:
    begun = time.perf_counter()
    ask(text)
    return time.perf_counter() - begun


@contextmanager
def opened(folders: dict[str, Path], *, through_ray: bool) -> Iterator[dict[str, Ask]]:
    """Open all collections: searched in this process, and those in shards through Ray as well."""

    def by_words(engine: Engine | ShardedEngine) -> Ask:
        return functools.partial(engine.search, k=10, syntax=False, searcher="lexical")

    with ExitStack() as stack:
        asks: dict[str, Ask] = {}
        for name, folder in folders.items():
            kind = Engine if name == "plain" else ShardedEngine
            engine = stack.enter_context(kind.open(folder))
            asks[name] = by_words(engine)
        for name, folder in folders.items():
            if name != "plain" and through_ray:
                served = stack.enter_context(
                    open_from_cluster(folder, "local", settings=[{"cluster": {"cpus": 0.1}}])
                )
                asks[f"{name}-ray"] = by_words(served)
        yield asks


def replica_megabytes(folder: Path) -> list[dict[str, float]]:
    """Read the memory of the processes that serve the shards of a collection, in their order.

    *private* is what each has for itself; *resident* counts mapped index files as well.
    """
    return [_memory(process) for process in _replicas(folder)]


def _replicas(folder: Path) -> list[Path]:
    """Find the processes that serve the shards of a collection, in their order."""
    name = f"quoth-{open_shards(folder).identity[:12]}-"
    found: dict[str, Path] = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            title = (process / "cmdline").read_text()
        except OSError:  # it has just ended
            continue
        if name in title and "ServeReplica" in title:
            found[title] = process
    return [found[title] for title in sorted(found)]


def work_in_turns(
    systems: dict[str, Ask], folders: dict[str, Path], queries: Sequence[str]
) -> dict[str, Any]:
    """Count the processor time of a search: of this process, and of those that serve the shards.

    Systems whose name ends in -ray are served by processes of their own. What these spend anyway,
    without a question, is measured first and not counted, nor is what Ray's own processes do.
    """
    served = {
        name: _replicas(folders[name.removesuffix("-ray")])
        for name in systems
        if name.endswith("-ray")
    }
    spent: dict[str, list[float]] = {name: [] for name in systems}
    for ask in systems.values():
        for text in queries[:TURN]:  # warm up
            ask(text)
    idle = {name: _idle_share(own) for name, own in served.items()}
    for at in range(0, len(queries), TURN):
        for name, ask in systems.items():
            before, begun = _processor_seconds(served.get(name, [])), time.perf_counter()
            for text in queries[at : at + TURN]:
                ask(text)
            anyway = idle.get(name, 0.0) * (time.perf_counter() - begun)
            spent[name].append(_processor_seconds(served.get(name, [])) - before - anyway)
    rows = {name: 1000 * sum(own) / len(queries) for name, own in spent.items()}
    return {
        name: {"cpu_ms": own, "over_plain": own / rows["plain"], "idle_cores": idle.get(name, 0.0)}
        for name, own in rows.items()
    }


def _idle_share(others: Sequence[Path]) -> float:
    """Measure how many cores this process and others keep busy while nothing is asked."""
    before, begun = _processor_seconds(others), time.perf_counter()
    time.sleep(_IDLE_SECONDS)
    return (_processor_seconds(others) - before) / (time.perf_counter() - begun)


def _processor_seconds(others: Sequence[Path]) -> float:
    """Add up the processor time of this process and of others, in seconds so far."""
    ticks = 0
    for process in others:
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def _memory(process: Path) -> dict[str, float]:
    lines = (process / "smaps_rollup").read_text().splitlines()[1:]
    sizes = {
        name: int(rest.split()[0]) for name, _, rest in (each.partition(":") for each in lines)
    }
    private = sizes["Private_Dirty"] + sizes["Private_Clean"]
    return {"private_mb": private / 1024, "resident_mb": sizes["Rss"] / 1024}


def check_exactness(data: Path, counts: Sequence[int], *, num_queries: int) -> dict[str, Any]:
    """Compare the 100 best of all shards with those of the collection in one piece, on one set."""
    queries = read_queries(data / "queries.jsonl.gz")[:num_queries]
    documents = list(read(data))
    with tempfile.TemporaryDirectory() as scratch:
        with Engine.open(Path(scratch) / "plain.quoth") as engine:
            engine.add_documents(documents)
            expected = engine.run(queries, k=_DEPTH)
            shown = _search_all(engine, queries)
        row: dict[str, Any] = {
            "set": data.name,
            "documents": len(documents),
            "queries": len(queries),
            "shards": {},
        }
        for count in counts:
            folder = Path(scratch) / f"shards-{count}"
            create_shards(folder, count=count)
            with ShardedEngine.open(folder) as sharded:
                sharded.add_documents(documents)
                bulk = compare_runs(expected, sharded.run(queries, k=_DEPTH), queries)
                double = compare_runs(shown, _search_all(sharded, queries), queries[:_SHOWN])
            row["shards"][str(count)] = {"bulk": bulk, "shown": double}
    logging.info("%s: %s", data.name, row["shards"])
    return row


def _search_all(engine: Engine | ShardedEngine, queries: Sequence[Query]) -> Run:
    """Search some queries one by one, as a user does: scores are in double precision."""
    return Run(
        "shown",
        {
            query.qid: engine.search(query.text, k=_DEPTH, syntax=False)
            for query in queries[:_SHOWN]
        },
    )


def check_vectors(data: Path, counts: Sequence[int], *, num_queries: int) -> dict[str, Any]:
    """The same by vectors and fused, on a set that is small enough to encode here."""
    from quoth.shards.split_and_merge import split_collection

    queries = read_queries(data / "queries.jsonl.gz")[:num_queries]
    row: dict[str, Any] = {"set": data.name, "queries": len(queries), "searchers": {}}
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / "plain.quoth"
        with Engine.open(plain) as engine:
            engine.add_documents(read(data))
            begun = time.perf_counter()
            engine.encode()
            row["documents"] = len(engine.docids())
            row["encode_seconds"] = time.perf_counter() - begun
            names = ("dense", "hybrid")
            expected = {name: engine.run(queries, k=_DEPTH, searcher=name) for name in names}
        for count in counts:
            folder = Path(scratch) / f"shards-{count}"
            split_collection(plain, folder, count=count)
            with ShardedEngine.open(folder) as sharded:
                for name in names:
                    found = sharded.run(queries, k=_DEPTH, searcher=name)
                    own = row["searchers"].setdefault(name, {})
                    own[str(count)] = compare_runs(expected[name], found, queries)
    logging.info("%s: %s", data.name, row["searchers"])
    return row


def compare_runs(expected: Run, found: Run, queries: Sequence[Query]) -> dict[str, float]:
    """Count the queries with the same 100 best, and give the largest difference of scores.

    Bulk runs of a collection in one piece carry tantivy's single precision, whose steps are 1.5e-5
    at a score of 200; so differences are given as a share of the score as well (of 1 where it is
    smaller), and documents may change places where they agree to 1e-5 of it.
    """
    same, largest, share = 0, 0.0, 0.0
    for query in queries:
        wanted = {hit.docid: hit.score for hit in expected.hits[query.qid]}
        given = {hit.docid: hit.score for hit in found.hits[query.qid]}
        least = min(wanted.values(), default=0.0)
        differing = wanted.keys() ^ given.keys()
        values = wanted | given
        within = 1e-5 * max(1.0, least)
        same += all(abs(values[docid] - least) <= within for docid in differing)
        for docid in wanted.keys() & given.keys():
            difference = abs(wanted[docid] - given[docid])
            largest = max(largest, difference)
            share = max(share, difference / max(1.0, wanted[docid]))
    return {
        "same_top_100": same / len(queries),
        "largest_difference": largest,
        "largest_share": share,
    }
