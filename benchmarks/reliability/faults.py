"""Inject faults into every operation, and write what became of them.

    python -m benchmarks.reliability.faults [--most 40] [--operations add,remove]

Without --most, every single system call fails once in every way, which takes hours. Writes
results/faults.json: per operation and kind of fault, how many were injected, how many of them the
command noticed, and how many left something wrong. Exits with 1 where any did.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.reliability.shim import WAYS, compile_shim
from quoth import __version__

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).parent / "results" / "faults.json"
LEXICAL = (
    *("create", "add", "update", "remove", "compact", "search", "verify", "repair", "catch up"),
    *("shard", "merge", "add to shards", "remove from shards", "search shards"),
)
NEURAL = ("encode", "add to vectors", "remove vectors", "repair vectors", "install")
"""Operations that need models, and so torch."""

LONG = ("learn",)
"""Operations that train, and take their time."""


def main() -> None:
    """Inject faults, and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=0, help="cases per operation, 0 for all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--operations", default="", help="some of them, by commas")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    names = given.operations.split(",") if given.operations else [*LEXICAL, *NEURAL, *LONG]
    found: list[dict[str, Any]] = []
    for name in names:  # what was found so far is kept
        found += run_injections([name], most=given.most, seed=given.seed)
        given.out.write_text(json.dumps(summarise(found, most=given.most), indent=1) + "\n")
    wrong = [case for case in found if case["problems"]]
    for case in wrong:
        sys.stdout.write(f"{case['operation']} {case['fault']}: {'; '.join(case['problems'])}\n")
    sys.stdout.write(f"{len(found):,} faults, {len(wrong):,} left something wrong\n")
    sys.exit(bool(wrong))


def run_injections(names: Sequence[str], *, most: int, seed: int = 0) -> list[dict[str, Any]]:
    """Inject faults in a process that has the library preloaded; return its cases."""
    with tempfile.TemporaryDirectory(prefix="quoth-shim-") as folder:
        library, out = compile_shim(Path(folder)), Path(folder) / "cases.jsonl"
        paths = [str(ROOT), str(ROOT / "tests" / "support"), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            "LD_PRELOAD": str(library),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "OMP_NUM_THREADS": "1",
        }
        command = [sys.executable, "-m", "benchmarks.reliability.injecting", *names]
        options = ["--most", str(most), "--seed", str(seed), "--out", str(out)]
        subprocess.run([*command, *options], check=True, env=environment, cwd=ROOT)
        return [json.loads(line) for line in out.read_text().splitlines()]


def summarise(cases: Sequence[dict[str, Any]], *, most: int) -> dict[str, Any]:
    """Count the cases by operation, and by way of failing."""
    return {
        "quoth": __version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "every_call": most == 0,
        "faults": len(cases),
        "wrong": sum(bool(case["problems"]) for case in cases),
        "operations": [
            {"operation": name, **_count([case for case in cases if case["operation"] == name])}
            for name in dict.fromkeys(case["operation"] for case in cases)
        ],
        "ways": [
            {"kind": way[0], "error": way[1], "mode": way[2], **_count(of_way)}
            for way in WAYS
            if (of_way := [case for case in cases if _way(case) == way])
        ],
    }


def _way(case: dict[str, Any]) -> tuple[str, str, str]:
    fault = case["fault"]
    return fault["kind"], fault["error"], fault["mode"]


def _count(cases: Sequence[dict[str, Any]]) -> dict[str, int]:
    codes = Counter(case["code"] for case in cases)
    done = codes[0] + codes[1]
    return {
        "faults": len(cases),
        "succeeded": done,
        "refused": len(cases) - done,
        "wrong": sum(bool(case["problems"]) for case in cases),
    }


if __name__ == "__main__":
    main()
