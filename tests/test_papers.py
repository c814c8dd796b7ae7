"""Guard: the list of the papers' tables is whole, and every figure it names is in a result file."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.papers import __main__ as command  # noqa: E402
from benchmarks.papers.manifest import (  # noqa: E402
    Exhibit,
    look_up,
    read_figure,
    read_papers,
    references,
)

PAPERS = {paper.name: paper for paper in read_papers()}
EXHIBITS = [each for paper in PAPERS.values() for each in paper.exhibits]
CHAPTERS = {2: 7, 4: 3, 5: 1, 6: 4}
EXPECTED = {
    "PIXAR": (range(1, 6), range(1, 3)),
    "Dynamic vocabulary": (range(1, 15), range(1, 4)),
    "GLOW": (range(1, 5), range(1, 5)),
    "RUMBArt and ACROBArT": (
        [f"6.{at}" for at in range(1, 7)],
        [f"{chapter}.{at}" for chapter, last in CHAPTERS.items() for at in range(1, last + 1)],
    ),
}
"""Numbers of the tables and of the figures of each paper."""


def numbers_named(text: str) -> set[str]:
    """Find the numbers in "Tables 1 and 8" or "Figures 2.1 to 2.7"."""
    found = set(re.findall(r"\d+(?:\.\d+)?", text))
    for first, last in re.findall(r"([\d.]+\d|\d) to ([\d.]+\d|\d)", text):
        chapter, _, start = first.rpartition(".")
        found |= {
            f"{chapter}.{at}" if chapter else str(at)
            for at in range(int(start), int(last.rpartition(".")[2]) + 1)
        }
    return found


@pytest.mark.parametrize("name", EXPECTED)
def test_every_table_and_figure_is_named(name: str) -> None:
    paper = PAPERS[name]
    texts = [each.name for each in paper.exhibits] + re.split(r"[;.] ?(?=[A-Z])|; ", paper.drawings)
    named = {
        kind: set().union(*(numbers_named(text) for text in texts if text.startswith(kind)))
        for kind in ("Table", "Figure")
    }
    tables, figures = EXPECTED[name]
    assert set(map(str, tables)) <= named["Table"]
    assert set(map(str, figures)) <= named["Figure"]


def test_every_figure_of_ours_is_in_a_result_file() -> None:
    assert len(list(references(tuple(PAPERS.values())))) > 300
    for exhibit in EXHIBITS:
        assert not exhibit.seconds or read_figure(exhibit.seconds).value > 0
        assert exhibit.told
        for row in exhibit.rows:
            meant = [column for column in exhibit.columns if row.reference(column)]
            assert all(row.ours(column) is not None for column in meant)


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda each: each.name)
def test_rows_fit_their_columns_and_commands_exist(exhibit: Exhibit) -> None:
    assert exhibit.difference
    for row in exhibit.rows:
        assert len(row.paper) <= len(exhibit.columns)
        assert bool(row.here) == any(row.reference(column) for column in exhibit.columns)
    assert not exhibit.num_shown or exhibit.command or exhibit.like
    for line in exhibit.command:
        module = line.split()[2].replace(".", "/")
        assert line.startswith("python -m ") and (ROOT / f"{module}.py").exists()


def test_a_reference_that_fits_nothing_or_several_is_an_error() -> None:
    for wrong in (
        "glow/glow:experiments[0]/variants[variant=glow]",
        "glow/glow:experiments[0]/variants[variant!=glow]",
        "glow/glow:experiment",
    ):
        with pytest.raises(LookupError, match=re.escape(wrong)):
            look_up(wrong)
    with pytest.raises(LookupError, match="is no figure"):
        read_figure("glow/glow:experiments[0]/device")
    assert len(look_up("glow/glow:experiments[*]/variants[*variant=none]")) == 7


def test_sentences_take_their_figures_from_the_results() -> None:
    mean = "glow/glow:experiments[4]/facts/mean_weight/queries"
    exhibit = Exhibit("Table", "about", f"It is <{mean}|1|1>, or <{mean}|100|0> %; 3 < 4.")
    value = read_figure(mean).value
    assert exhibit.told == f"It is {value:.1f}, or {100 * value:.0f} %; 3 < 4."
    paper = replace(PAPERS["GLOW"], exhibits=(exhibit,))
    assert list(references((paper,))) == [mean, mean]
    assert not any("<" in each.told for each in EXHIBITS)


def test_a_sentence_that_refers_to_nothing_is_an_error() -> None:
    exhibit = Exhibit("Table", "about", "It is <glow/glow:experiments[4]/facts/none|1|1>.")
    with pytest.raises(LookupError, match="there is no 'none'"):
        _ = exhibit.told


def test_the_list_names_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["papers", "--list"])
    command.main()
    told = capsys.readouterr().out
    assert all(f"{each.name}: {each.about}" in told for each in EXHIBITS)
