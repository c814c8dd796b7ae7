"""Run a server in a thread, on a port of the system's choice."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def listening(server: Any) -> Iterator[str]:
    """Run a server of uvicorn until the block ends; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{taken.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
