"""Processes forked from one that has loaded torch already, since every other one takes seconds."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from typing import Any

_LOADED = [
    "torch",
    "safetensors.torch",
    "transformers.models.bert.modeling_bert",
    "quoth.training.recipes.glow",
]


def run_together(work: Callable[..., None], arguments: Sequence[tuple[Any, ...]]) -> list[int]:
    """Call a function in as many processes at a time; returns how each of them ended."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_LOADED)
    processes = [context.Process(target=work, args=each) for each in arguments]
    for process in processes:
        process.start()
    codes = []
    for process in processes:
        process.join(300)
        codes.append(-1 if process.exitcode is None else process.exitcode)
        process.kill()
        process.join()
        process.close()
    return codes
