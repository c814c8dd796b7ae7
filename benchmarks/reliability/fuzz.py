"""Fuzz everything that comes from outside: files, queries, filters, HTTP bodies, and artifacts.

    python -m benchmarks.reliability.fuzz [--inputs 2000] [--seed 0]

Real texts (docstrings of the standard library) are written in every format and then mutated; so are
queries, filters, bodies and the files of a collection. Everything must end as a result or as an
error of ours; a damaged artifact must be noticed or change nothing. Writes results/fuzz.json, and
exits with 1 where anything broke.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import random
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.reliability.mutations import mutate, mutate_text
from quoth import __version__
from quoth.engine.engine import Engine
from quoth.errors import QuothError
from quoth.records import Document, Problem
from quoth.text.readers.config import ReaderConfig
from quoth.text.readers.reading import read_documents

RESULTS = Path(__file__).parent / "results" / "fuzz.json"
QUERIES = (
    *("owl", '"barn owl" night', "+owl -barn", "title:owl text:night", '-"the owl"', "owl^2"),
    *("(owl OR barn) AND night", "owl*", "title:", '""', "+", "a" * 300, "東京 über naïve"),
)
QUERY_PARTS = ('"', "+", "-", ":", "title:", "(", ")", "*", "^", "~", " ", "\\", "OR", "owl", "\n")
FILTERS = (
    *("year >= 2000", 'lang in ("en", "de")', "not year exists", 'lang = "en" and year < 2010'),
    *('(year = 1999 or year = 2001) and not lang = "fr"', "year != 1.5e3", 'path ~ "a*"'),
)
FILTER_PARTS = (
    *(" and ", " or ", "not ", "(", ")", '"', "'", "in (", "exists", "=", "!=", "<", ">=", ","),
    *("year", "lang", "1e999", "-0", "9" * 40, "null", "true", ";", "--", "' OR 1=1"),
)
BODIES: tuple[tuple[str, Any], ...] = (
    ("/search", {"query": "owl", "k": 5}),
    ("/search", {"query": "owl", "k": 3, "offset": 1, "where": "year >= 2000", "with": "lexical"}),
    ("/explain", {"query": "owl", "docids": ["d1"]}),
    ("/documents", {"documents": [{"docid": "n", "fields": {"text": ["a new owl"]}}]}),
)


@dataclass
class Found:
    """What became of the inputs of one kind."""

    inputs: int = 0
    refused: int = 0
    slowest: float = 0.0
    broken: list[str] = field(default_factory=list)

    def note(self, work: Callable[[], bool], shown: str) -> None:
        """Try one input; the work says whether it was refused."""
        begun = time.perf_counter()
        try:
            self.refused += work()
        except QuothError:
            self.refused += 1
        except Exception as error:
            self.broken.append(f"{shown}: {type(error).__name__}: {error}"[:300])
        self.inputs += 1
        self.slowest = max(self.slowest, time.perf_counter() - begun)


def main() -> None:
    """Fuzz all kinds, and write one JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=2000, help="per kind")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    found = fuzz_all(given.inputs, seed=given.seed)
    rows = [
        {"kind": kind, "inputs": each.inputs, "refused": each.refused, "broken": len(each.broken)}
        for kind, each in found.items()
    ]
    content = {
        "quoth": __version__,
        "seed": given.seed,
        "inputs": sum(each.inputs for each in found.values()),
        "broken": sum(len(each.broken) for each in found.values()),
        "kinds": rows,
    }
    given.out.write_text(json.dumps(content, indent=1) + "\n")
    for kind, each in found.items():
        sys.stdout.writelines(f"{kind}: {line}\n" for line in each.broken)
        sys.stdout.write(f"{kind}: {each.inputs:,} inputs, slowest {each.slowest:.1f} s\n")
    sys.exit(any(each.broken for each in found.values()))


def fuzz_all(inputs: int, *, seed: int) -> dict[str, Found]:
    """Fuzz every kind with so many inputs."""
    with tempfile.TemporaryDirectory(prefix="quoth-fuzz-") as place:
        folder = Path(place) / "c.quoth"
        with Engine.open(folder) as engine:
            engine.add_documents(_documents())
        return {
            **fuzz_readers(inputs, Path(place), seed=seed),
            "query": fuzz_queries(inputs, folder, seed=seed),
            "filter": fuzz_filters(inputs, folder, seed=seed),
            "HTTP body": fuzz_bodies(inputs, folder, seed=seed),
            "artifact": fuzz_artifacts(max(1, inputs // 10), folder, seed=seed),
        }


def real_texts(most: int) -> list[tuple[str, str]]:
    """Take names and texts from the docstrings of the standard library."""
    found = read_documents(["python:json"], config=ReaderConfig(), report=lambda _problem: None)
    texts = [
        (each.document.docid, " ".join(text for t in each.document.fields.values() for text in t))
        for each in found
    ]
    return texts[:most]


def _documents() -> Iterator[Document]:
    for number, (name, text) in enumerate(real_texts(12)):
        about: dict[str, Any] = {"year": 1995 + number, "lang": ("en", "fr")}
        yield Document(f"d{number}", {"title": (name,), "text": (f"owl {text}",)}, about)


# Readers ---------------------------------------------------------------------------------------


def make_files() -> dict[str, bytes]:
    """Write the same texts in every format that is fuzzed."""
    texts = real_texts(6)
    rows = io.StringIO()
    csv.writer(rows).writerows([("id", "title", "text"), *((n, n, t) for n, t in texts)])
    lines = "".join(json.dumps({"_id": n, "title": n, "text": t}) + "\n" for n, t in texts)
    page = "".join(f"<h1>{n}</h1><p>{t}</p><ul><li>{n}</li></ul>" for n, t in texts)
    return {
        "csv": rows.getvalue().encode(),
        "jsonl": lines.encode(),
        "html": f"<html><head><title>T</title></head><body>{page}</body></html>".encode(),
        "md": "".join(f"# {n}\n\n{t}\n\n" for n, t in texts).encode(),
        "docx": _write_docx(texts),
        "pdf": _write_pdf(texts),
    }


def _write_docx(texts: list[tuple[str, str]]) -> bytes:
    import docx

    document, stream = docx.Document(), io.BytesIO()
    for name, text in texts:
        document.add_heading(name, level=1)
        document.add_paragraph(text)
    document.save(stream)
    return stream.getvalue()


def _write_pdf(texts: list[tuple[str, str]]) -> bytes:
    """Write a PDF of a page per text."""
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(texts)))
    bodies = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(texts)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, (_name, text) in enumerate(texts):
        plain = "".join(each for each in text[:300] if each.isalnum() or each in " .,")
        drawn = f"BT /F1 12 Tf 72 720 Td ({plain}) Tj ET"
        bodies.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * at} 0 R"
            " /Resources << /Font << /F1 3 0 R >> >> >>"
        )
        bodies.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    data, places = "%PDF-1.4\n", []
    for number, body in enumerate(bodies, start=1):
        places.append(len(data))
        data += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    size = len(bodies) + 1
    data += f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer\n<< /Size {size} /Root 1 0 R >>\n"
    return (data + f"startxref\n{data.index('xref')}\n%%EOF\n").encode("latin-1", "replace")


def fuzz_readers(inputs: int, place: Path, *, seed: int) -> dict[str, Found]:
    """Read mutated files of every format."""
    files = make_files()
    found = {f"{suffix} file": Found() for suffix in files}
    for suffix, data in files.items():
        path = place / f"fuzzed.{suffix}"
        for number in range(inputs):
            chance = random.Random(f"{seed}/{suffix}/{number}")
            if suffix == "docx" and chance.random() < 0.7:
                path.write_bytes(mutate_member(data, chance))
            else:
                path.write_bytes(mutate(data, chance, others=list(files.values())))
            found[f"{suffix} file"].note(lambda at=path: _read(at), f"{suffix} {number}")
        path.unlink()
    return found


def mutate_member(data: bytes, chance: random.Random) -> bytes:
    """Mutate one file inside an archive, and pack it so that its checksums are right."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(packed, "w") as new:
        names = old.namelist()
        doomed = chance.choice(["word/document.xml", *names])
        for name in names:
            content = old.read(name)
            new.writestr(name, mutate(content, chance) if name == doomed else content)
    return packed.getvalue()


def _read(path: Path) -> bool:
    problems: list[Problem] = []
    config = ReaderConfig(max_seconds=30.0, max_memory_bytes=1_000_000_000)
    located = list(read_documents([str(path)], config=config, report=problems.append))
    if not located and not problems:
        raise AssertionError("neither a document nor a problem")
    return not located


# Queries, filters, bodies ----------------------------------------------------------------------


def fuzz_queries(inputs: int, folder: Path, *, seed: int) -> Found:
    """Search with mutated queries, and have them explained."""
    found = Found()
    with Engine.open(folder) as engine:
        for number in range(inputs):
            chance = random.Random(f"{seed}/query/{number}")
            query = mutate_text(chance.choice(QUERIES), chance, parts=QUERY_PARTS)
            found.note(lambda text=query: _search(engine, text, ""), repr(query))
    return found


def fuzz_filters(inputs: int, folder: Path, *, seed: int) -> Found:
    """Search with mutated filters."""
    found = Found()
    with Engine.open(folder) as engine:
        for number in range(inputs):
            chance = random.Random(f"{seed}/filter/{number}")
            where = mutate_text(chance.choice(FILTERS), chance, parts=FILTER_PARTS)
            found.note(lambda text=where: _search(engine, "owl", text), repr(where))
    return found


def _search(engine: Engine, query: str, where: str) -> bool:
    hits = engine.search(query, k=5, where=where)
    engine.explain(query, [hit.docid for hit in hits], where=where)
    return False


def fuzz_bodies(inputs: int, folder: Path, *, seed: int) -> Found:
    """Send mutated bodies to a server; it may refuse them, and must not fail."""
    from fastapi.testclient import TestClient

    from quoth.server.routes import create_app
    from quoth.settings.server import ServerConfig

    found = Found()
    copy = Path(shutil.copytree(folder, folder.with_name("served.quoth")))
    with Engine.open(copy) as engine:
        app = create_app(engine, ServerConfig(workers=2), allow_writes=True)
        with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
            for number in range(inputs):
                chance = random.Random(f"{seed}/body/{number}")
                path, body = chance.choice(BODIES)
                data = mutate(json.dumps(body).encode(), chance)

                def send(path: str = path, data: bytes = data) -> bool:
                    headers = {"content-type": "application/json"}
                    status = client.post(path, content=data, headers=headers).status_code
                    if status >= 500:
                        raise AssertionError(f"answered {status}")
                    return status >= 400

                found.note(send, f"{path} {data!r}")
    return found


# Artifacts -------------------------------------------------------------------------------------


def fuzz_artifacts(inputs: int, folder: Path, *, seed: int) -> Found:
    """Mutate a file of a collection: it is noticed, or everything is found as before."""
    found = Found()
    with Engine.open(folder) as engine:
        expected = _everything(engine)
    files = sorted(
        path.relative_to(folder)
        for path in folder.rglob("*")
        if path.is_file() and path.stat().st_size and path.suffix != ".lock"
    )
    for number in range(inputs):
        chance = random.Random(f"{seed}/artifact/{number}")
        copy = Path(shutil.copytree(folder, folder.with_name(f"{number}.quoth")))
        path = copy / chance.choice(files)
        path.write_bytes(mutate(path.read_bytes(), chance))
        found.note(lambda at=copy: _is_noticed(at, expected), f"{path.name} {number}")
        shutil.rmtree(copy)
    return found


def _everything(engine: Engine) -> list[Any]:
    hits = engine.search("owl json", k=99)
    texts = [engine.document(docid) for docid in engine.docids()]
    return [[(hit.docid, round(hit.score, 4), hit.passage) for hit in hits], texts]


def _is_noticed(folder: Path, expected: list[Any]) -> bool:
    """Whether `verify` names damage; if not, nothing may differ."""
    with Engine.open(folder) as engine:
        if not engine.verify().is_clean:
            return True
    with Engine.open(folder) as engine:
        if _everything(engine) != expected:
            raise AssertionError("verify found nothing, and something differs")
    return False


if __name__ == "__main__":
    main()
