"""Show near-identical documents once, at the place of the best of them, with their other places.

Only hits are compared, by signatures that were made when documents were added, so a search costs a
few microseconds more per hit. Where some fall together, a longer stretch of the same ranking is
looked at to fill the page; what is shown of a hit is made for the page alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from quoth.compiled import is_compiled
from quoth.records import Hit, SearchRequest
from quoth.text.signatures import are_similar, smallest_hashes

MOST_REACH = 200
"""Pages beyond so many hits are shown as they are found."""

_KEYS = 8  # two texts of similarity 0.9 share none of their 8 smallest hashes once in 10^7 times
_MOST_ROUNDS = 4

BestHits = Callable[[int], Sequence[Hit]]
"""Returns the k best hits, fewer where there are no more."""

ReadSignatures = Callable[[Sequence[Hit]], Sequence[bytes]]
"""Returns what tells near-identical documents, for each hit."""


@dataclass(slots=True)
class Group:
    """A hit with its rank and signature, and the near-identical ones that were found after it."""

    best: Hit
    rank: int
    signature: bytes
    others: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DistinctPage:
    """The groups of a page, and how many of the best hits were looked at for it."""

    groups: Sequence[Group]
    k: int


def choose_distinct(
    request: SearchRequest, best: BestHits, *, signatures: ReadSignatures, least: float
) -> DistinctPage:
    """Choose the hits of a page, near-identical documents together."""
    wanted = request.reach
    for _round in range(_MOST_ROUNDS):
        k, hits = wanted, best(wanted)
        groups = group_hits(hits, signatures(hits), least=least)
        missing = request.reach - len(groups)
        if missing <= 0 or len(hits) < k:
            break
        wanted = k + 2 * missing
    return DistinctPage(groups[request.offset : request.reach], k)


def group_hits(hits: Sequence[Hit], signatures: Sequence[bytes], *, least: float) -> list[Group]:
    """Put hits that are at least so similar together, in the order of the best of each group."""
    if _are_apart(signatures):  # as on most pages
        pairs = enumerate(zip(hits, signatures, strict=True), start=1)
        return [Group(hit, rank, signature) for rank, (hit, signature) in pairs]
    groups: list[Group] = []
    by_hash: dict[int, tuple[Group, ...]] = {}
    for rank, (hit, signature) in enumerate(zip(hits, signatures, strict=True), start=1):
        keys = smallest_hashes(signature, _KEYS)
        shared = list(filter(by_hash.__contains__, keys))
        if not shared:  # as with most hits
            groups.append(Group(hit, rank, signature))
            by_hash.update(dict.fromkeys(keys, (groups[-1],)))
            continue
        near = [group for key in shared for group in by_hash[key]]
        compared: Group | None = None
        for group in near:
            if group is not compared and are_similar(group.signature, signature, least=least):
                group.others.append(hit.docid)
                break
            compared = group  # which most keys lead to again
        else:
            group = Group(hit, rank, signature)
            groups.append(group)
            known = {key: (*by_hash[key], group) for key in shared}
            by_hash.update(dict.fromkeys(keys, (group,)) | known)
    return groups


def _are_apart(signatures: Sequence[bytes]) -> bool:
    """Tell, where compiled code can, whether none shares one of its smallest hashes."""
    if not is_compiled():
        return False
    from quoth.native import are_apart

    return are_apart(list(signatures), _KEYS)
