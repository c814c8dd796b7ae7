"""What a processor is quick at is read from what the system says of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quoth.models import processor

X86 = "processor\t: 0\nflags\t\t: fpu sse2 avx512_vnni amx_tile\nbugs\t\t: none\n"
ARM = "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: fp asimd asimddp\n"


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    processor.processor_flags.cache_clear()
    yield
    processor.processor_flags.cache_clear()


@pytest.mark.parametrize(
    ("text", "int8", "bf16"),
    [
        (X86, True, True),
        (X86.replace("avx512_vnni amx_tile", "avx2"), False, False),
        (ARM, True, False),
        (ARM.replace("asimddp", "crc32"), False, False),
        ("", False, False),
    ],
)
def test_what_linux_lists(
    text: str, int8: bool, bf16: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Path, "read_text", lambda path, **options: text)
    assert (processor.has_fast_int8(), processor.has_fast_bf16()) == (int8, bf16)


@pytest.mark.parametrize(
    ("system", "machine", "int8"),
    [("darwin", "arm64", True), ("darwin", "x86_64", False), ("win32", "AMD64", False)],
)
def test_systems_that_list_nothing(
    system: str, machine: str, int8: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(path: Path, **options: object) -> str:
        raise FileNotFoundError(path)

    monkeypatch.setattr(Path, "read_text", missing)
    monkeypatch.setattr(processor.sys, "platform", system)
    monkeypatch.setattr(processor.platform, "machine", lambda: machine)
    assert (processor.has_fast_int8(), processor.has_fast_bf16()) == (int8, False)
