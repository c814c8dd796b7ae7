"""A real Chromium for tests of the page, and a real server for it to look at."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from listening import listening

from quoth.shards.opening import OpenedEngine

ROOT = Path(__file__).resolve().parents[2]
AXE = Path(os.environ.get("AXE_CORE") or ROOT / "node_modules" / "axe-core" / "axe.min.js")
"""The accessibility checker: `npm install axe-core` in the checkout, or the path of its file."""

_NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in _NAMES if (path := shutil.which(name))), None)
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
_PATIENCE = 60_000  # milliseconds; only a failure takes them, so a busy machine may have them
SCREENSHOTS = Path(__file__).resolve().parents[2] / "docs" / "screenshots"


class Browsing:
    """Shows addresses in one tab and keeps what goes wrong there."""

    def __init__(self, tab: Any, address: str) -> None:
        self._tab = tab
        self.address = address
        self.problems: list[str] = []
        self._listeners = {
            "console": self._note,
            "pageerror": lambda error: self.problems.append(f"thrown: {error}"),
            "request": self._check_request,
        }
        for event, listener in self._listeners.items():
            tab.on(event, listener)

    def open(
        self, path: str = "/", *, width: int = 1100, height: int = 760, dark: bool = False
    ) -> Any:
        """Open the page at a path."""
        self._tab.set_viewport_size({"width": width, "height": height})
        self._tab.emulate_media(color_scheme="dark" if dark else "light")
        self._go(self.address + path)
        return self._tab

    def close(self) -> None:
        """Leave the page."""
        for event, listener in self._listeners.items():
            self._tab.remove_listener(event, listener)
        self._go("about:blank")

    def _go(self, address: str) -> None:
        """Go to an address, again where a step back of the page's own overtook it."""
        from playwright.sync_api import Error

        try:
            self._tab.goto(address)
        except Error as error:
            if "ERR_ABORTED" not in str(error):
                raise
            self._tab.goto(address)

    def _note(self, said: Any) -> None:
        if said.type in ("error", "warning"):
            self.problems.append(said.text)

    def _check_request(self, request: Any) -> None:
        if not request.url.startswith(self.address + "/"):
            self.problems.append(f"outside request: {request.url}")


@contextlib.contextmanager
def open_tab() -> Iterator[Any]:
    """One tab for all tests: every server has a port, so an origin and a storage, of its own."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=_PATIENCE)
    with sync_playwright() as playing:
        browser = playing.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_page()
        page.set_default_timeout(_PATIENCE)
        yield page
        browser.close()


def take_picture(page: Any, name: str) -> None:
    """Write what the page shows into docs/screenshots, nothing of it pointed at."""
    image = pytest.importorskip("PIL.Image", reason="Pillow makes the pictures small")
    SCREENSHOTS.mkdir(exist_ok=True)
    page.mouse.move(2, 2)
    taken = page.screenshot(animations="disabled", caret="hide")
    small = image.open(io.BytesIO(taken)).convert("RGB").quantize(96, dither=image.Dither.NONE)
    small.save(SCREENSHOTS / f"{name}.png", optimize=True)


@contextlib.contextmanager
def serve_collection(engine: OpenedEngine) -> Iterator[str]:
    """Run the application in a thread, on a free port; models are not loaded, which takes long."""
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    from quoth.server.routes import create_app

    settings = uvicorn.Config(create_app(engine), lifespan="off", log_config=None, ws="none")
    with listening(uvicorn.Server(settings)) as url:
        yield url


@contextlib.contextmanager
def serve_writable(engines: Sequence[OpenedEngine]) -> Iterator[str]:
    """Serve collections that may be written to; what was started ends with the block."""
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    from quoth.server.collections import Collections, name_collections
    from quoth.server.routes import create_app

    apps = [create_app(engine, allow_writes=True) for engine in engines]
    names = name_collections(engine.folder for engine in engines)
    served = apps[0] if len(apps) == 1 else Collections(apps, names)
    settings = uvicorn.Config(served, lifespan="on", log_config=None, ws="none")
    with listening(uvicorn.Server(settings)) as url:
        yield url


def assert_accessible(page: Any) -> None:
    """Let axe-core look at the page: it may find nothing serious."""
    if not AXE.is_file():
        pytest.skip("axe-core is not installed: npm install axe-core")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
    told = [f"{each['id']}: {[node['html'] for node in each['nodes']]}" for each in serious]
    assert found["passes"] and not serious, told
