"""Build and run packaging/Containerfile without a container engine, in a clean root.

    python tools/try_container.py FOLDER

FOLDER gets a minimal Debian by debootstrap, unless it has one, and then a copy of it for each
stage. The steps run in them by chroot, with the checkout as their only input: pip installs from
the index that it is configured for. Then the image's commands add a document, make a key and serve
as its own user; the health check, readiness and a search are tried, and the stop signal. It prints
every command and what became of it. It needs root, debootstrap, unshare and the network.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
CONTAINERFILE = CHECKOUT / "packaging" / "Containerfile"
SUITE = "bookworm"  # its Python is 3.11, as the image's
PACKAGES = "python3,python3-venv,ca-certificates"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PASSED_ON = re.compile(r"PIP_.*|(https?|no)_proxy", re.I)
LONGEST = 600.0
"""Seconds to wait for the server, which only a failure takes."""


@dataclass
class Stage:
    """A root in which instructions are run, and what they have set."""

    root: Path
    folder: str = "/"
    user: str = ""
    variables: dict[str, str] = field(default_factory=dict)

    def command(self, arguments: Sequence[str]) -> list[str]:
        """Return a command that runs in this root, as this user, in this folder."""
        variables = {"PATH": PATH, "HOME": self.folder, **_passed_on(), **self.variables}
        inside = ["env", "-i", *(f"{name}={value}" for name, value in variables.items())]
        who = [f"--userspec={self.user}"] if self.user else []
        entered = f'cd {shlex.quote(self.folder)} && exec "$@"'
        return ["chroot", *who, str(self.root), *inside, "sh", "-c", entered, "sh", *arguments]

    def run(self, arguments: Sequence[str]) -> str:
        """Run a command to its end, and return what it prints."""
        _say(f"[{self.root.name}] {shlex.join(arguments)}")
        done = subprocess.run(
            self.command(arguments), stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"failed with status {done.returncode}: {shlex.join(arguments)}")
        return done.stdout


def main() -> None:
    """Enter a namespace of our own for mounts, then build and try the image."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("folder", type=Path, help="Folder to build in; needs about 2 GB.")
    parser.add_argument("--mirror", default="", help="Debian mirror, as debootstrap takes it.")
    parser.add_argument(
        "--lend", action="append", default=[], help="Folder that pip needs, seen by the steps."
    )
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("this needs root, for chroot and mounts; run it with sudo")
    if not given.inside:  # mounts end with the namespace, whatever happens
        unshare = ["unshare", "--mount", "--propagation", "private", sys.executable, __file__]
        os.execvp("unshare", [*unshare, *sys.argv[1:], "--inside"])
    base = given.folder.resolve() / "base"
    if not (base / "usr" / "bin" / "python3").exists():
        _bootstrap(base, given.mirror)
    stages = build(base, [Path(each).resolve() for each in given.lend])
    try_image(stages[-1])
    _say("built, served, healthy, ready, searched and stopped")


def _bootstrap(base: Path, mirror: str) -> None:
    command = ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", SUITE, str(base)]
    _say(shlex.join(command))
    base.mkdir(parents=True, exist_ok=True)
    subprocess.run([*command, *([mirror] if mirror else [])], check=True, stdout=sys.stderr)


def build(base: Path, lent: Sequence[Path]) -> list[Stage]:
    """Run the instructions that make the image; return its stages, the image last."""
    stages: list[Stage] = []
    names: dict[str, Stage] = {}
    for name, argument in read_instructions(CONTAINERFILE.read_text(encoding="utf-8")):
        if name == "FROM":
            label = argument.partition(" AS ")[2] or "image"
            stages.append(names.setdefault(label, _make_stage(base, label, lent)))
            continue
        stage = stages[-1]
        if name == "ARG":
            key, _, value = argument.partition("=")
            stage.variables[key] = value
        elif name == "WORKDIR":
            stage.folder = argument
            (stage.root / argument.lstrip("/")).mkdir(parents=True, exist_ok=True)
        elif name == "COPY":
            _copy(stage, shlex.split(argument), names)
        elif name == "RUN":
            print(stage.run(["sh", "-ec", argument]), end="", file=sys.stderr)
        elif name == "USER":
            stage.user = argument
    return stages


def read_instructions(text: str) -> list[tuple[str, str]]:
    r"""List the instructions of a container file with their arguments, lines joined.

    >>> read_instructions("# a\nFROM x AS y\nRUN a && \\\n  b\n")
    [('FROM', 'x AS y'), ('RUN', 'a && b')]
    """
    joined = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.M))
    words = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [(name, argument) for name, argument in words]


def _make_stage(base: Path, label: str, lent: Iterable[Path]) -> Stage:
    root = base.with_name(f"stage-{label}")
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(["cp", "-a", str(base), str(root)], check=True)
    for name in ("resolv.conf", "hosts"):
        if Path("/etc", name).exists():
            shutil.copy(Path("/etc", name), root / "etc" / name)
    certificates = Path("/etc/ssl/certs/ca-certificates.crt")
    if certificates.exists():  # those of this machine, where a proxy has its own
        shutil.copy(certificates, root / str(certificates).lstrip("/"))
    subprocess.run(["mount", "-t", "proc", "proc", str(root / "proc")], check=True)
    for folder in (Path("/dev"), Path("/dev/shm"), *lent):
        target = root / str(folder).lstrip("/")
        target.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "--bind", str(folder), str(target)], check=True)
    return Stage(root)


def _copy(stage: Stage, words: list[str], names: Mapping[str, Stage]) -> None:
    source = CHECKOUT
    if words[0].startswith("--from="):
        source = names[words.pop(0).partition("=")[2]].root
    *sources, target = words
    place = stage.root / os.path.join(stage.folder, target).lstrip("/")
    for each in sources:
        found = source / each.lstrip("/")
        _say(f"[{stage.root.name}] COPY {each} {target}")
        if found.is_dir():
            ignored = shutil.ignore_patterns("__pycache__") if source == CHECKOUT else None
            shutil.copytree(found, place, symlinks=True, ignore=ignored, dirs_exist_ok=True)
        else:
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy(found, place)


def try_image(image: Stage) -> None:
    """Use the image as its first lines say: add, make a key, serve, check, search, stop."""
    last = dict(read_instructions(CONTAINERFILE.read_text(encoding="utf-8")))
    entry, command = json.loads(last["ENTRYPOINT"]), json.loads(last["CMD"])
    files = image.root / "data" / "files"
    files.mkdir(parents=True)
    (files / "owl.md").write_text("# Barn owl\n\nThe owl hunts at dusk.\n", encoding="utf-8")
    image.run([*entry, "add", "/data/notes.quoth", "/data/files"])
    secret = image.run([*entry, "keys", "new", "me", "--keys", "/data/keys.jsonl"]).strip()
    _say(f"[{image.root.name}] {shlex.join([*entry, *command])}  (as {image.user})")
    with subprocess.Popen(image.command([*entry, *command])) as server:
        try:
            url = f"http://127.0.0.1:{last['EXPOSE']}"
            _wait(server, f"{url}/health/live")
            _wait(server, f"{url}/health/ready")
            image.run(json.loads(last["HEALTHCHECK"].partition("CMD ")[2]))
            hits = _search(url, secret)
            assert hits == ["/data/files/owl.md"], hits
            server.send_signal(signal.Signals[last["STOPSIGNAL"]])
            status = server.wait(timeout=LONGEST)
            assert status == 0, f"the server ended with status {status}"
        finally:
            server.kill()


def _wait(server: subprocess.Popen[bytes], url: str) -> None:
    end = time.monotonic() + LONGEST
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                _say(f"{url}: {answer.status}")
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            if server.poll() is not None or time.monotonic() > end:
                sys.exit(f"{url} did not answer: {error}")
        time.sleep(0.2)


def _search(url: str, secret: str) -> list[str]:
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {secret}"}
    body = json.dumps({"query": "owl at dusk"}).encode()
    request = urllib.request.Request(f"{url}/search", body, headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return [hit["docid"] for hit in json.load(answer)["hits"]]


def _passed_on() -> dict[str, str]:
    """Return what tells pip where packages come from."""
    return {name: value for name, value in os.environ.items() if PASSED_ON.fullmatch(name)}


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
