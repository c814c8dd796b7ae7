"""What `quoth status` and `quoth verify` say of a collection in shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from quoth.collection.shards import ShardSet
from quoth.collection.source_files import check_files
from quoth.engine.status import MAX_FILTERS
from quoth.engine.verify import Damage
from quoth.search.fan_out import ShardAnswers
from quoth.search.group import statuses_by_shard

_OF_ALL = ("terms",)  # every shard counts those of all
_PER_SHARD = ("documents", "passages", "change", "bytes", "questions")


def describe_all(shards: ShardSet, asked: ShardAnswers[dict[str, Any]]) -> dict[str, Any]:
    """Describe a collection by what its shards say: sums, and each for itself."""
    answers = statuses_by_shard(asked.answers)
    found = [answers[number] for number in sorted(answers)]
    own = {
        f"{number:05d}": (
            {key: value for key, value in answers[number].items() if key in _PER_SHARD}
            if number in answers
            else {"unreachable": asked.unreachable[number]}
        )
        for number in range(shards.count)
    }
    return {
        "collection": str(shards.folder),
        "documents": sum(each["documents"] for each in found),
        "passages": sum(each["passages"] for each in found),
        "fields": found[0]["fields"],
        "filters": _first([each.get("filters", {}) for each in found], most=MAX_FILTERS),
        "sources": found[0].get("sources", []),
        "change": sum(each["change"] for each in found),
        "bytes": _add([each["bytes"] for each in found]),
        "set": shards.identity,
        "shards": own,
        "indexes": {
            name: _add([each["indexes"].get(name, {}) for each in found])
            for name in found[0]["indexes"]
        },
        "settings": found[0]["settings"],
    }


def join_damage(
    shards: ShardSet, found: Sequence[Damage], *, exchange_is_due: bool, repair: bool
) -> Damage:
    """Join what was found in each shard, and say if statistics are out of date."""
    indexes = [line for each in found for line in each.indexes]
    indexes += check_files(shards.folder, repair=repair)
    if exchange_is_due:
        indexes.append(f"{shards.folder}: the shards have changed since they exchanged statistics")
    return Damage(
        tuple(line for each in found for line in each.store),
        tuple(indexes),
        repaired=repair,
        behind={folder: count for each in found for folder, count in each.behind.items()},
        models=tuple(line for each in found for line in each.models),
    )


def _first(parts: Sequence[dict[str, Any]], *, most: int) -> dict[str, Any]:
    """Take keys as they come, each with what the first shard that has it says.

    >>> _first([{"year": 1}, {"lang": 2, "year": 3}], most=2)
    {'year': 1, 'lang': 2}
    """
    joined = {key: value for part in reversed(parts) for key, value in part.items()}
    keys = dict.fromkeys(key for part in parts for key in part)
    return {key: joined[key] for key in list(keys)[:most]}


def _add(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Add up numbers by key; of anything else, what the first shard says is taken.

    >>> _add([{"documents": 2, "encoder": "a"}, {"documents": 3, "encoder": "a"}])
    {'documents': 5, 'encoder': 'a'}
    """
    return {
        key: sum(part.get(key, 0) for part in parts)
        if isinstance(value, int) and key not in _OF_ALL
        else value
        for key, value in parts[0].items()
    }
