"""Show near-identical documents once, at the place of the best of them, with their other places.

Only hits are compared, by signatures that were made when documents were added, so a search costs a
few microseconds more per hit. Where some fall together, further hits are found to fill the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from quoth.records import SearchRequest, ShownHit, ShownHits
from quoth.text.signatures import read_hashes, similarity

MOST_REACH = 200
"""Pages beyond so many hits are shown as they are found."""

_KEYS = 8  # two texts of similarity 0.9 share none of their 8 smallest hashes once in 10^7 times
_MOST_ROUNDS = 4


@dataclass(slots=True)
class Group:
    """A hit, and the near-identical ones that were found after it."""

    best: ShownHit
    others: list[str] = field(default_factory=list)


def find_distinct(
    request: SearchRequest, find: Callable[[SearchRequest], ShownHits], *, least: float
) -> ShownHits:
    """Find the hits of a request, near-identical documents together."""
    wide = replace(request, offset=0, k=request.reach, distinct=True)
    for _round in range(_MOST_ROUNDS):
        found = find(wide)
        groups = group_hits(found.hits, least=least)
        missing = request.reach - len(groups)
        if missing <= 0 or len(found.hits) < wide.k:
            break
        wide = replace(wide, k=wide.k + 2 * missing)
    page = groups[request.offset : request.reach]
    hits = [
        replace(each.best, rank=rank, also=tuple(each.others))
        for rank, each in enumerate(page, start=request.offset + 1)
    ]
    return replace(found, hits=tuple(hits))


def group_hits(hits: Sequence[ShownHit], *, least: float) -> list[Group]:
    """Put hits that are at least so similar together, in the order of the best of each group."""
    groups: list[Group] = []
    by_hash: dict[int, list[Group]] = {}
    for hit in hits:
        keys = read_hashes(hit.signature)[:_KEYS]
        near = (group for key in keys for group in by_hash.get(key, ()))
        for group in near:
            if similarity(group.best.signature, hit.signature) >= least:
                group.others.append(hit.hit.docid)
                break
        else:
            group = Group(hit)
            groups.append(group)
            for key in keys:
                by_hash.setdefault(key, []).append(group)
    return groups
