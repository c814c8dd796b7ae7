"""Guard: the documentation site builds offline, and every link inside it leads somewhere."""

from __future__ import annotations

import doctest
import importlib.util
import re
import sys
from pathlib import Path

import pytest
from browsing import needs_chromium, open_tab

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import build_site as site  # noqa: E402

HAS_MKDOCS = all(map(importlib.util.find_spec, ("mkdocs", "material")))


def test_examples() -> None:
    failed, attempted = doctest.testmod(site)
    assert attempted and not failed


def test_every_page_has_its_place_in_the_navigation() -> None:
    listed = set(re.findall(r"docs/(\w+\.md)", site.NAVIGATION))
    assert listed == {each.name for each in (ROOT / "docs").glob("*.md")}


def test_the_reference_is_made_from_the_code() -> None:
    pytest.importorskip("fastapi", reason="the reference of HTTP needs fastapi")
    pages = {name: "\n".join(lines) for name, lines in site.reference().items()}
    assert "## quoth search" in pages["commands.md"] and "`--where`" in pages["commands.md"]
    assert "## dense" in pages["settings.md"] and "`storage`" in pages["settings.md"]
    assert "### Engine.search" in pages["python.md"] and "## Answer" in pages["python.md"]
    assert "## POST /search" in pages["http.md"] and "| `query` | string |" in pages["http.md"]


@pytest.mark.skipif(not HAS_MKDOCS, reason="the site needs mkdocs-material: pip install it")
def test_the_site_builds_and_no_link_is_broken(tmp_path: Path) -> None:
    assert site.build(tmp_path / "site") == 0
    built = {str(each.relative_to(tmp_path / "site")) for each in tmp_path.rglob("*.html")}
    assert {"index.html", "docs/usage.html", "reference/commands.html"} <= built
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(r'(?:src|href)="(https?://[^"]+)"', page.read_text(encoding="utf-8"))
        assert not [each for each in loaded if each.endswith((".js", ".css", ".woff2"))]


def test_every_plot_is_made_from_results_and_stands_on_a_page() -> None:
    plots = {each.name for each in (ROOT / "docs").glob("*.svg")}
    pages = "".join(each.read_text(encoding="utf-8") for each in (ROOT / "docs").glob("*.md"))
    shown = set(re.findall(r"!\[[^\]]+\]\((\w+\.svg)\)", pages))
    assert plots and plots == shown
    for name in plots:
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        assert text.startswith("<!-- made by docs/generate.py") and "aria-label=" in text
        width, height = re.search(r'<svg [^>]*width="(\d+)" height="(\d+)"', text).groups()  # type: ignore[union-attr]
        assert f'viewBox="0 0 {width} {height}"' in text  # so that no page blows it up


@needs_chromium
@pytest.mark.skipif(not HAS_MKDOCS, reason="the site needs mkdocs-material: pip install it")
def test_plots_are_seen_on_the_built_pages(tmp_path: Path) -> None:
    pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    assert site.build(tmp_path / "site") == 0
    seen = {}
    with open_tab() as tab:
        for name in ("benchmarks", "reliability"):
            tab.goto((tmp_path / "site" / "docs" / f"{name}.html").as_uri())
            for image in tab.locator("article img[src$='.svg']").all():
                image.scroll_into_view_if_needed()
                shown = "each => each.complete && each.naturalWidth > 0 && each.clientWidth"
                seen[image.get_attribute("src")] = image.evaluate(shown)
    assert set(seen) == {each.name for each in (ROOT / "docs").glob("*.svg")}
    assert all(300 <= width <= 800 for width in seen.values()), seen


@pytest.mark.skipif(not HAS_MKDOCS, reason="the site needs mkdocs-material: pip install it")
def test_a_broken_link_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out = site.lay_out

    def break_one(source: Path) -> None:
        lay_out(source)
        with (source / "docs" / "usage.md").open("a", encoding="utf-8") as page:
            page.write("\n[nowhere](install.md#no-such-heading)\n")

    monkeypatch.setattr(site, "lay_out", break_one)
    assert site.build(tmp_path / "site") != 0
