"""Name every table and figure of the four papers, and what repeats it.

    python -m benchmarks.papers --list

`make papers` prints the same and writes docs/papers.md.
"""

from __future__ import annotations

import argparse

from benchmarks.papers.manifest import Exhibit, read_papers


def main() -> None:
    """Print the list."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--list", action="store_true", help="what is done without it, too")
    parser.parse_args()
    for paper in read_papers():
        print(f"{paper.name}: {paper.title}")
        for exhibit in paper.exhibits:
            print(f"  {exhibit.name}: {exhibit.about} ({exhibit.status})")
            for line in _how(exhibit):
                print(f"      {line}")
        print(f"  {paper.drawings}\n")


def _how(exhibit: Exhibit) -> list[str]:
    where = ", ".join(filter(None, (exhibit.hardware, exhibit.duration)))
    like = [f"as {exhibit.like}"] if exhibit.like else []
    return [*exhibit.command, *like, *([f"({where})"] if where else [])]


if __name__ == "__main__":
    main()
