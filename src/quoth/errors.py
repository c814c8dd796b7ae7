"""The exception tree. Everything Quoth raises on purpose is a `QuothError`.

    QuothError
    ├── ConfigError        a setting is unknown, malformed, or at odds with what is on disk
    ├── CorpusError        an input cannot be read; carries path:line
    ├── CollectionError    the collection on disk cannot be used as asked
    │   ├── NoCollection       there is none at this path
    │   ├── NotFound           it has no such document
    │   ├── Busy               another process is writing
    │   ├── Damaged            a file is truncated, altered or missing
    │   ├── FormatMismatch     written by another format version of Quoth
    │   ├── IndexMismatch      an index was built with other settings than those configured
    │   ├── IndexMoved         a writer replaced the index while it was read; search again
    │   ├── OutOfDate          a shard changed after statistics were exchanged
    │   ├── OutOfFiles         the system lets the process open no more files
    │   ├── ShardDown          a shard of the collection cannot be reached
    │   ├── StorageFailed      the system failed to read or write a file; nothing is known damaged
    │   └── StorageFull        the disk took no more; nothing acknowledged was lost
    ├── FilterError        a metadata condition cannot be parsed
    ├── EvaluationError    queries, qrels, runs or measures that cannot be evaluated
    ├── ClusterError       a Ray cluster cannot be joined, or what ran on it failed
    ├── Interrupted        work was given up by whoever asked for it, or ran out of time
    └── MissingExtra       an optional dependency is not installed

A message says what was found, what was expected, and what to do.
"""

from __future__ import annotations


class QuothError(Exception):
    """Base of every error that Quoth raises on purpose."""


class ConfigError(QuothError):
    """A setting is unknown, malformed, or at odds with what is on disk."""


class CorpusError(QuothError):
    """An input cannot be read."""


class CollectionError(QuothError):
    """The collection on disk cannot be used as asked."""


class NoCollection(CollectionError):
    """There is no collection at this path."""


class NotFound(CollectionError):
    """The collection has no such document, or no such thing."""


class Busy(CollectionError):
    """Another process is writing to the collection."""


class Damaged(CollectionError):
    """A file of the collection is truncated, altered or missing."""


class FormatMismatch(CollectionError):
    """The collection was written by another format version of Quoth."""


class IndexMismatch(CollectionError):
    """An index was built with other settings than those configured."""


class IndexMoved(CollectionError):
    """A writer replaced the index while it was read; searching again finds the new one."""


class OutOfFiles(CollectionError):
    """Too many files are open, in this process or on this machine; nothing is damaged."""


class OutOfDate(CollectionError):
    """A shard has changed since the shards last exchanged their statistics."""


class ShardDown(CollectionError):
    """A shard of a collection cannot be reached; the others can still answer."""

    def __init__(self, number: int, why: str) -> None:
        super().__init__(number, why)  # both, so that it can be pickled
        self.number = number
        self.why = why

    def __str__(self) -> str:
        return f"shard {self.number} is out of reach: {self.why}"


class StorageFailed(CollectionError):
    """The system failed to read or write a file; whether the file is damaged is not known."""


class StorageFull(CollectionError):
    """The disk took no more; nothing that was acknowledged is lost."""


class FilterError(QuothError):
    """A metadata condition cannot be parsed."""


class EvaluationError(QuothError):
    """Queries, qrels, runs or measures cannot be evaluated."""


class ClusterError(QuothError):
    """A Ray cluster cannot be joined, or what ran on it failed."""


class Interrupted(QuothError):
    """Work was given up by whoever asked for it, or ran out of time."""


class MissingExtra(QuothError):
    """An optional dependency is not installed."""
