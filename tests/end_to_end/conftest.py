"""What the tests of the page share: a tab, a server to look at, and pictures on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browsing import Browsing, open_tab, take_picture
from page_server import PageServer, serve_page


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the tests of the page take the pictures that the documentation shows."""
    parser.addoption(
        "--take-screenshots", action="store_true", help="write docs/screenshots/*.png anew"
    )


@pytest.fixture(scope="module")
def tab() -> Iterator[Any]:
    """One tab for the tests of a file."""
    with open_tab() as opened:
        yield opened


@pytest.fixture
def server() -> Iterator[PageServer]:
    """A stand-in for the server."""
    with serve_page() as served:
        yield served


@pytest.fixture
def browsing(tab: Any, server: PageServer) -> Iterator[Browsing]:
    """Pages that must do nothing wrong: no console error, nothing blocked, nothing from outside."""
    opened = Browsing(tab, server.url)
    yield opened
    opened.close()
    assert opened.problems == []


@pytest.fixture
def failing(tab: Any, server: PageServer) -> Iterator[Browsing]:
    """Pages whose requests fail: Chromium notes that in the console, and only that is allowed."""
    opened = Browsing(tab, server.url)
    yield opened
    opened.close()
    assert all(each.startswith("Failed to load resource") for each in opened.problems)


@pytest.fixture
def shoot(request: pytest.FixtureRequest) -> Callable[[Any, str], None]:
    """Take a picture of the page, if pictures are wanted."""
    wanted = request.config.getoption("--take-screenshots", default=False)
    return take_picture if wanted else lambda page, name: None
