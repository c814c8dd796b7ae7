"""Let one system call after another fail in a command, and look at what is left each time.

    LD_PRELOAD=failing_calls.so python -m benchmarks.reliability.injecting add remove --out FILE

`benchmarks.reliability.faults` compiles the library and calls this. Each case
runs in a forked process, and is looked at by another one, as the next command would:

- the command ends with success or with one clear error, without a traceback or a panic;
- every document is as before or as after, batches whole (on shards, in each of them); all of it
  where the command succeeded;
- every search finds exactly the documents that are there;
- `quoth verify` finds nothing damaged;
- the command, given again, succeeds, and gives what it gives where nothing fails.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import itertools
import json
import os
import pickle
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeVar

import typer.main

from benchmarks.reliability.operations import (
    COLLECTION,
    OPERATIONS,
    Ended,
    Operation,
    State,
    find_all,
    prepare,
    read_state,
    run,
)
from benchmarks.reliability.shim import WAYS, Fault, Shim
from quoth.cli.main import main as run_command
from quoth.errors import QuothError

_T = TypeVar("_T")
_PATIENCE = 300
"""Seconds after which a case counts as hanging."""


@dataclass(frozen=True, slots=True)
class Case:
    """What became of a command in which a call failed."""

    operation: str
    fault: Fault
    code: int
    said: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Clean:
    """What an operation does where nothing fails."""

    counts: dict[str, int] = field(default_factory=dict)
    before: State = frozenset()
    hits: tuple[tuple[str, float], ...] = ()


def main() -> None:
    """Inject faults into one operation; one JSON line per case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operations", nargs="+", choices=list(OPERATIONS))
    parser.add_argument("--most", type=int, default=0, help="cases per operation, 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    with given.out.open("w") as stream:
        for name in given.operations:
            with tempfile.TemporaryDirectory(prefix="quoth-faults-") as folder:
                scratch = Path(folder).resolve()
                for case in inject(name, scratch, most=given.most, seed=given.seed):
                    stream.write(json.dumps(asdict(case)) + "\n")
                    stream.flush()


def inject(name: str, scratch: Path, *, most: int, seed: int) -> Iterator[Case]:
    """Yield a case for every call that is made to fail."""
    operation, shim = OPERATIONS[name], Shim()
    preload(operation)
    base = scratch / "base"
    base.mkdir()
    apart(lambda: prepare(operation.base, base))
    clean = _observe(operation, base, scratch / "clean", shim)
    for fault in choose(clean.counts, most=most, chance=random.Random(f"{seed}/{name}")):
        yield _try(operation, clean, fault, base=base, folder=scratch / "case", shim=shim)


def choose(counts: Mapping[str, int], *, most: int, chance: random.Random) -> list[Fault]:
    """List the faults to inject: every call in every way, or so many, taken from all ways in turn.

    >>> faults = choose({"sync": 9, "rename": 1}, most=4, chance=random.Random(1))
    >>> sorted((each.kind, each.error) for each in faults)
    [('rename', 'EIO'), ('rename', 'ENOSPC'), ('sync', 'EIO'), ('sync', 'ENOSPC')]
    """
    ways = []
    for kind, error, mode in WAYS:
        places = range(1, counts.get(kind, 0) + 1)
        every = [Fault(kind, at, error, mode) for at in places]
        ways.append(chance.sample(every, len(every)) if most else every)
    if not most:
        return [fault for way in ways for fault in way]
    turns = itertools.zip_longest(*chance.sample(ways, len(ways)))
    return [fault for turn in turns for fault in turn if fault is not None][:most]


def preload(operation: Operation) -> None:
    """Import what the operation needs before forking, so that each case is quick."""
    import quoth.search.lexical.searcher
    import quoth.shards.split_and_merge

    typer.main.get_command = functools.cache(typer.main.get_command)  # longer than most commands
    nowhere = "/dev/null/nowhere"
    for name, *rest in (
        *(("remove", "d"), ("search", "owl"), ("verify",), ("encode",), ("merge", "--out", "x")),
        *(("shard", "--shards", "2", "--out", "x"), ("add", "none", "--strict")),
    ):
        sys.argv = ["quoth", name, nowhere, *rest]
        with contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
            run_command()
    if operation.searcher == "dense" or operation.base == "learnable":
        import tiny_encoder  # noqa: F401
        from learning_worlds import copy_words

        from quoth.models.query_generator.generator import QueryGenerator

        QueryGenerator.generate = copy_words  # as a tiny network writes nothing that tells

        import quoth.search.dense.searcher  # noqa: F401


def _observe(operation: Operation, base: Path, folder: Path, shim: Shim) -> Clean:
    """Run the operation undisturbed, and count its calls."""
    shutil.copytree(base, folder)
    before = apart(lambda: read_state(folder / COLLECTION))
    shutil.rmtree(folder)
    shutil.copytree(base, folder)

    def work() -> dict[str, int]:
        shim.watch(folder)
        ended = run(operation.arguments(folder), _log_of(folder))
        assert ended.code in (0, 1), ended.said
        return shim.counts()

    counts = apart(work)
    hits = apart(lambda: find_all(folder / operation.makes, operation.searcher))
    return Clean(counts, before, tuple(hits))


def _try(
    operation: Operation, clean: Clean, fault: Fault, *, base: Path, folder: Path, shim: Shim
) -> Case:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(base, folder)
    log = _log_of(folder)

    def work() -> Ended:
        shim.arm(folder, fault)
        try:
            return run(operation.arguments(folder), log)
        finally:
            shim.disarm()

    try:
        ended = apart(work)
    except Crashed as error:
        said = log.read_text(errors="replace") if log.exists() else ""
        return Case(operation.name, fault, -1, said, (str(error),))
    problems = _judge_words(ended)
    try:
        problems += apart(lambda: _look(operation, clean, ended, folder))
    except Crashed as error:
        problems.append(f"looking at it: {error}")
    return Case(operation.name, fault, ended.code, ended.said, tuple(problems))


def _judge_words(ended: Ended) -> list[str]:
    """Say what is wrong with what a command said."""
    problems = []
    if ended.code == -1 or "Traceback" in ended.said:
        problems.append("traceback")
    if "panicked at" in ended.said:
        problems.append("panic")
    if ended.code not in (0, 1) and "error: " not in ended.said:
        problems.append("no error message")
    return problems


def _look(operation: Operation, clean: Clean, ended: Ended, folder: Path) -> list[str]:
    """Look at a collection as whoever comes next; return what is wrong."""
    problems: list[str] = []
    collection, log = folder / COLLECTION, _log_of(folder)
    makes = folder / operation.makes
    is_apart = operation.makes != COLLECTION
    allowed = operation.states(clean.before)
    found = read_state(collection)
    if found not in allowed:
        problems.append(f"documents lost: {len(found)}, expected {sorted(map(len, allowed))}")
    if ended.code == 0 and found != allowed[-1]:
        problems.append("success without effect")
    if "documents are stored" in ended.said and found == allowed[0] != allowed[-1]:
        problems.append("said to be stored, and was not")
    if ended.code == 0 or operation.base not in ("damaged", "broken"):
        problems += _search(collection, found)
        problems += _verify(collection, log) if found else []
    if is_apart and ended.code and makes.exists() and any(makes.iterdir()):
        problems.append("something half made under the final name")
    if is_apart and ended.code == 0:
        shutil.rmtree(makes)
    again = run(operation.arguments(folder), log)
    if again.code not in (0, 1):
        problems.append(f"again: {again.said.strip()}")
        return problems
    if find_all(makes, operation.searcher) != list(clean.hits):
        problems.append("again: other hits than where nothing fails")
    return problems + _verify(makes, log)


def _search(collection: Path, found: State) -> list[str]:
    if not found:
        return []
    try:
        hits = find_all(collection, "lexical")
    except QuothError as error:
        return [f"search: {error}"]
    return (
        []
        if {docid for docid, _score in hits} == {docid for docid, _text in found}
        else [f"search finds {len(hits)} of {len(found)}"]
    )


def _verify(collection: Path, log: Path) -> list[str]:
    ended = run(["verify", str(collection)], log)
    return [] if ended.code == 0 else [f"verify: {ended.said.strip()}"]


def _log_of(folder: Path) -> Path:
    """Name a file for what a command says, where no call fails."""
    return folder.parent / f"log-of-{folder.name}"


# Processes -------------------------------------------------------------------------------------


class Crashed(Exception):
    """A forked process ended without an answer."""


def apart(work: Callable[[], _T], *, patience: int = _PATIENCE) -> _T:
    """Do some work in a forked process, so many seconds at most; return what it returns."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _answer(work, writing, patience)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        answer = stream.read()
    _pid, status = os.waitpid(child, 0)
    if not answer:
        code = os.waitstatus_to_exitcode(status)
        hang = code == -signal.SIGALRM
        raise Crashed("it hung" if hang else f"the process ended with {code}")
    is_good, value = pickle.loads(answer)  # from our own child
    if not is_good:
        raise Crashed(value)
    return value  # type: ignore[no-any-return]


def _answer(work: Callable[[], object], writing: int, patience: int) -> None:
    signal.alarm(patience)
    try:
        try:
            answer = (True, work())
        except BaseException as error:
            answer = (False, f"{type(error).__name__}: {error}")
        with os.fdopen(writing, "wb") as stream:
            pickle.dump(answer, stream)
    finally:
        os._exit(0)


if __name__ == "__main__":
    main()
