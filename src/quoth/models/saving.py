"""Write tensors and tokenizers, and say so as of any other file where the system does not let us.

The libraries that read and write them are not Python's: on a full disk they raise errors of their
own, with the system's number in the text.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor

_NUMBER = re.compile(r"\bos error (\d+)\b")


def save_tensors(
    tensors: Mapping[str, Tensor], path: Path, *, metadata: dict[str, str] | None = None
) -> None:
    """Write tensors to a file; raises `OSError` where the system refuses."""
    from safetensors.torch import save_file

    with writing_tensors(path):
        save_file(dict(tensors), path, metadata=metadata)


def save_tokenizer(tokenizer: Tokenizer, path: Path) -> None:
    """Write a tokenizer as its library does; raises `OSError` where the system refuses."""
    path.write_text(tokenizer.to_str(pretty=True), encoding="utf-8")


@contextlib.contextmanager
def writing_tensors(path: Path) -> Iterator[None]:
    """Turn what the library says of the system into an `OSError` that names the file or folder."""
    from safetensors import SafetensorError

    try:
        yield
    except SafetensorError as error:
        found = _NUMBER.search(str(error))
        if found is None:
            raise
        number = int(found[1])
        raise OSError(number, os.strerror(number), str(path)) from error
