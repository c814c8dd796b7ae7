"""Compile the sources in native/ into quoth.native while the package is built, where that works.

Quoth runs without it, only slower, so that a machine without a compiler or without Python's headers
still installs. Run as a program, it compiles in place and says what went wrong:

    python hatch_build.py
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
SOURCES = ROOT / "native"
FLAGS = ("-std=c11", "-O2", "-fPIC", "-ffp-contract=off", "-fvisibility=hidden", "-DNDEBUG")
"""Multiplications and additions stay apart: scores must be those that Python computes."""


def compile_native(out: Path) -> str:
    """Compile all sources into one module; returns why that failed, empty where it worked."""
    if sys.byteorder != "little" or os.name != "posix":
        return "native/ is written for little-endian POSIX systems"
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    shared = (
        ["-bundle", "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-shared"]
    )
    include = sysconfig.get_paths()["include"]
    sources = sorted(map(str, SOURCES.glob("*.c")))
    with tempfile.TemporaryDirectory(dir=out.parent) as scratch:
        made = Path(scratch) / out.name
        command = [*compiler, *FLAGS, *shared, f"-I{include}", *sources, "-lm", "-o", str(made)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            return str(error)
        if done.returncode:
            return done.stderr.strip() or f"{compiler[0]} ended with {done.returncode}"
        made.replace(out)  # a process that has loaded the old one keeps it
    return ""


def target() -> Path:
    """Return where the module belongs: beside the package's Python files."""
    return ROOT / "src" / "quoth" / f"native{sysconfig.get_config_var('EXT_SUFFIX')}"


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a program
    pass
else:

    class NativeBuildHook(BuildHookInterface[Any]):
        """Compiles before the wheel is put together."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Compile, and have the wheel carry what came of it."""
            if self.target_name != "wheel" or not SOURCES.is_dir():
                return
            out = target()
            failed = compile_native(out)
            if failed:
                out.unlink(missing_ok=True)
                self.app.display_warning(f"quoth.native is left out, search is slower: {failed}")
                return
            build_data["pure_python"] = False
            build_data["infer_tag"] = True
            build_data["artifacts"].append(f"src/quoth/{out.name}")


if __name__ == "__main__":
    problem = compile_native(target())
    if problem:
        raise SystemExit(f"native/ could not be compiled: {problem}")
    print(f"compiled {target().relative_to(ROOT)}")
