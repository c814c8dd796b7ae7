"""Fetch the manuals that the questions are about, from Debian's packages, and make a collection.

    python -m benchmarks.manuals.fetch          # needs apt-get, dpkg-deb, man; about 70 MB
    python -m benchmarks.manuals.fetch --add    # then adds and encodes them

The texts are not ours and stay out of the repository: pages of HTML as they are in the packages,
pages of `man` as it writes them, one document each. `packages.json` beside them lists the versions.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

CACHE = Path("benchmarks/.cache/manuals")
PAGES = {
    "git": ("git-doc", "usr/share/doc/git-doc", "*.html"),
    "sqlite": ("sqlite3-doc", "usr/share/doc/sqlite3", "*.html"),
    "bash": ("bash-doc", "usr/share/doc/bash-doc", "bashref.html"),
    "debian-faq": ("debian-faq", "usr/share/doc/debian/FAQ", "*.en.html"),
    "debian-handbook": ("debian-handbook", "usr/share/doc/debian-handbook/html/en-US", "*.html"),
    "python-tutorial": ("python3.11-doc", "usr/share/doc/python3.11/html/tutorial", "*.html"),
    "python-library": ("python3.11-doc", "usr/share/doc/python3.11/html/library", "*.html"),
    "python-faq": ("python3.11-doc", "usr/share/doc/python3.11/html/faq", "*.html"),
    "python-howto": ("python3.11-doc", "usr/share/doc/python3.11/html/howto", "*.html"),
}
"""Folder of the corpus: its package, and which of its files are taken."""

MAN_PACKAGES = (
    *("coreutils", "tar", "gzip", "findutils", "grep", "sed", "openssh-client", "rsync", "cron"),
    *("less", "passwd", "sudo", "wget"),
)
COLUMNS = 100_000  # of a page of `man`: a paragraph is one line


def main() -> None:
    """Fetch, unpack, write; or add what was written to a collection."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, default=CACHE)
    parser.add_argument("--add", action="store_true")
    given = parser.parse_args()
    if given.add:
        add(given.cache)
        return
    if why := missing():
        print(f"skipped: {why}")
        return
    fetch(given.cache)
    print(f"{sum(1 for _ in corpus_files(given.cache))} documents in {given.cache / 'corpus'}")


def missing() -> str:
    """Say which program is missing, if one is."""
    absent = [each for each in ("apt-get", "dpkg-deb", "man") if shutil.which(each) is None]
    return f"there is no {', '.join(absent)} here; Debian or its like is needed" if absent else ""


def fetch(cache: Path) -> None:
    """Download packages, and write their pages into the corpus."""
    debs, unpacked = cache / "packages", cache / "unpacked"
    debs.mkdir(parents=True, exist_ok=True)
    names = sorted({package for package, *_rest in PAGES.values()} | {*MAN_PACKAGES})
    subprocess.run(["apt-get", "download", *names], cwd=debs, check=True)
    versions = {}
    for deb in sorted(debs.glob("*.deb")):
        shown = subprocess.run(
            ["dpkg-deb", "-f", str(deb), "Package", "Version"], capture_output=True, check=True
        )
        fields = dict(line.split(": ", 1) for line in shown.stdout.decode().splitlines())
        versions[fields["Package"]] = fields["Version"]
        subprocess.run(["dpkg-deb", "-x", str(deb), str(unpacked)], check=True)
    write_corpus(unpacked, cache / "corpus")
    (cache / "packages.json").write_text(json.dumps(versions, indent=1, sort_keys=True) + "\n")


def write_corpus(unpacked: Path, corpus: Path) -> None:
    """Copy pages of HTML, and render pages of `man`."""
    shutil.rmtree(corpus, ignore_errors=True)
    for name, (_package, folder, pattern) in PAGES.items():
        (corpus / name).mkdir(parents=True)
        for path in sorted((unpacked / folder).glob(pattern)):
            shutil.copyfile(path, corpus / name / path.name.replace(".en.html", ".html"))
    (corpus / "man").mkdir()
    for path in sorted((unpacked / "usr/share/man").glob("man[158]/*.gz")):
        if path.is_symlink() or gzip.decompress(path.read_bytes()).startswith(b".so "):
            continue  # another name of a page
        (corpus / "man" / f"{path.name.removesuffix('.gz')}.txt").write_text(render(path))


def render(path: Path) -> str:
    """Write a page of `man` as text, without hyphens and with a paragraph in a line."""
    settings = {
        **os.environ,
        "MANWIDTH": str(COLUMNS),
        "LC_ALL": "C.UTF-8",
        "MAN_KEEP_FORMATTING": "",
    }
    command = ["man", "--no-hyphenation", "--no-justification", "-l", str(path.resolve())]
    shown = subprocess.run(command, capture_output=True, check=True, env=settings)
    lines = shown.stdout.decode().splitlines()
    return "\n".join(line.strip() if len(line) > COLUMNS // 2 else line.rstrip() for line in lines)


def corpus_files(cache: Path) -> Iterator[Path]:
    """Yield the files of the corpus."""
    return (path for path in sorted((cache / "corpus").rglob("*")) if path.is_file())


def add(cache: Path) -> None:
    """Make a collection of the corpus, and encode it."""
    from quoth.engine.engine import Engine

    with Engine.open(cache / "manuals.quoth") as engine:
        print(engine.add([str(cache / "corpus")], report=print))
        engine.encode()


if __name__ == "__main__":
    main()
