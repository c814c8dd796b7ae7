"""Rules for every test: leave the process as it was, and pass on a slow machine, too."""

from __future__ import annotations

import fcntl
import gc
import re
import signal
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import HealthCheck, settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background jobs of a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)  # processes of tests inherit it

# What passes here passes everywhere; `--hypothesis-profile explore` looks for new cases.
_SLOW = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same-everywhere", max_examples=50, derandomize=True, **_SLOW)
settings.register_profile("explore", max_examples=1_000, **_SLOW)
settings.load_profile("same-everywhere")

# All commands are made once, which takes longer than most of them run.
typer.main.get_command = cache(typer.main.get_command)


gc.disable()  # what is imported and collected stays: until then, there is nothing to free


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over the 800,000 objects that were there before tests."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A cache for XDG_CACHE_HOME in which all workers find the language model converted once."""
    from quoth.models.language_models import EMBEDDED_NAME, find_language_model

    base = tmp_path_factory.getbasetemp()
    cache = (base if worker_id == "master" else base.parent) / "shared-cache"
    cache.mkdir(exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        find_language_model(EMBEDDED_NAME, cache=cache / "quoth")
    return cache


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread: tiny sums gain nothing from more, and keep their order."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True)
def _default_dtype() -> Iterator[None]:
    """No thread may change torch's default dtype: it is the whole process's."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "set_default_dtype"):
        left = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        assert left == torch.float32, "torch's default dtype was changed"


@pytest.fixture(autouse=True, scope="session")
def _as_installed_plainly() -> Iterator[None]:
    """Let `auto` rerank only where a test names a reader, and `add` make no vectors by itself.

    The shipped reader and the embedded encoder take their time, and few tests are about them.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("quoth.engine.reranking._find_installed", lambda _name: None)
        patch.setattr("quoth.engine.quick_encoding.can_encode", lambda: False)
        yield


# Each of these files needs some of what numba compiles, which takes most of a minute.
_COMPILED = re.compile(
    r"generative|phrase|pixar|trie|identifier|shortlist|searcher_contract|job_contract"
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Keep what has to be compiled to one worker, and otherwise each file."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduling(LoadFileScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            path = nodeid.partition("::")[0]
            return "compiled" if _COMPILED.search(path) else path

    return Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None
