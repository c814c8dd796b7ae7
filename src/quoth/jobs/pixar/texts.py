"""The texts that generative search is built from: what names documents, and what asks for them.

A document is named by its identifiers in the store and by its titles. Some names are kept back as
queries to judge by: they name nothing while a model is trained and judged, only once it is
installed. A document with one name, such as a keyword, offers nothing else to ask for it with, so
corrupted copies of the name stand in for queries.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

from quoth.artifact import write_text_atomically
from quoth.errors import Damaged
from quoth.jobs.learn.queries import hold_out_documents, spread

PSEUDO, CORRUPTED, LABELLED = "pseudo-queries", "corrupted names", "labelled pairs"
SENTENCES = "sentences"
_WORD = re.compile(r"[^\W\d_]+")
_COPIES = 3  # corrupted copies of a name that are trained on
_TRIES = 8
_JUDGED_SHARE = 5  # at most one document in so many gives a name to judge by
_LOOKED_SHARE = 10  # and one in so many of the others a name to look at while training
_FEWEST_NAMES = 3  # of a document that gives one away


@dataclass(frozen=True, slots=True)
class Names:
    """What names one document."""

    docid: str
    texts: tuple[str, ...]
    sentences: frozenset[str] = frozenset()
    """Those that are sentences of the document: nobody would ask in these words."""


class AskedQuery(NamedTuple):
    """A query, and the documents that answer it, by their place in the list."""

    text: str
    documents: tuple[int, ...]
    kind: str


class LabelledAsked(NamedTuple):
    """Labelled queries, split into those to learn from and those to judge by."""

    training: tuple[AskedQuery, ...]
    judged: tuple[AskedQuery, ...]


NOTHING = LabelledAsked((), ())


@dataclass(frozen=True, slots=True)
class BuildTexts:
    """All texts of one building, split once, so that every stage sees the same."""

    docids: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    """What names each document, less what is judged by."""

    training: tuple[AskedQuery, ...]
    """Queries to learn from, besides the names themselves."""

    judged: tuple[AskedQuery, ...]

    looked: tuple[AskedQuery, ...] = ()
    """Queries that choose among the states of a training; neither trained on nor reported."""

    @property
    def num_names(self) -> int:
        """Count the names, equal ones once."""
        return len({text for own in self.names for text in own})

    def save(self, path: Path) -> None:
        """Write all as JSON."""
        write_text_atomically(path, json.dumps(asdict(self)) + "\n")


def open_texts(path: Path) -> BuildTexts:
    """Read what `save` wrote."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return BuildTexts(
            tuple(content["docids"]),
            tuple(tuple(own) for own in content["names"]),
            tuple(_asked(each) for each in content["training"]),
            tuple(_asked(each) for each in content["judged"]),
            tuple(_asked(each) for each in content["looked"]),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{path} cannot be read ({error}); train again with --restart") from error


def split_texts(
    names: Sequence[Names],
    *,
    most_judged: int,
    seed: int,
    labelled: LabelledAsked = NOTHING,
    most_looked: int = 0,
) -> BuildTexts:
    """Choose what is judged by, and make queries for documents that have but one name.

    The two kinds of judging share no document: at most one in five gives a query to report on, one
    in ten of the others a query to look at while training.
    """
    owners = Counter(text.lower() for each in names for text in each.texts)
    givers = [
        at
        for at, each in enumerate(names)
        if len(each.texts) >= _FEWEST_NAMES and any(owners[t.lower()] == 1 for t in each.texts)
    ]
    single = [at for at, each in enumerate(names) if len(each.texts) == 1]
    most = {"most_judged": most_judged, "most_looked": most_looked}
    tested = _choose_twice(names, givers, **most, seed=seed)
    tested_single = _choose_twice(names, single, **most, seed=seed)
    given = {at: _give(names[at], owners, seed=seed) for own in tested for at in own}
    asked = [
        [AskedQuery(given[at], (at,), _kind(names[at], given[at])) for at in sorted(own)]
        for own in tested
    ]
    training = list(labelled.training)
    for at in single:
        copies = corrupt_name(names[at].texts[0], count=_COPIES + 1, seed=seed)
        for own, places in zip(asked, tested_single, strict=True):
            if at in places and len(copies) > 1:
                own.append(AskedQuery(copies.pop(), (at,), CORRUPTED))
        training += [AskedQuery(text, (at,), CORRUPTED) for text in copies[:_COPIES]]
    judged = (*labelled.judged, *asked[0])
    known = {each.text.lower() for each in judged}
    looked = tuple(
        each
        for each in (*_look_labelled(labelled.training, most=most_looked, seed=seed), *asked[1])
        if each.text.lower() not in known
    )
    kept_back = known | {each.text.lower() for each in looked}
    return BuildTexts(
        docids=tuple(each.docid for each in names),
        names=tuple(
            tuple(text for text in each.texts if text != given.get(at))
            for at, each in enumerate(names)
        ),
        training=tuple(each for each in training if each.text.lower() not in kept_back),
        judged=judged,
        looked=looked,
    )


def corrupt_name(text: str, *, count: int, seed: int) -> list[str]:
    """Make copies of a name that differ from it and from each other: fewer words, another order.

    Words of one-word names lose a letter. Too short a name has fewer copies, or none.

    >>> sorted(corrupt_name("red shoes", count=9, seed=0))
    ['red', 'shoes', 'shoes red']
    """
    words = text.split()
    chance = random.Random(f"{seed} {text}")
    found: dict[str, None] = {}
    for _ in range(_TRIES * count):
        copy = list(words)
        if len(words) == 1:
            copy = [_drop_letter(words[0], chance)]
        elif chance.random() < 0.5:
            del copy[chance.randrange(len(copy))]
        else:
            chance.shuffle(copy)
        if copy != words and any(copy):
            found.setdefault(" ".join(copy))
    return list(found)[:count]


def common_words(texts: Iterable[str], *, least: int, most: int) -> list[str]:
    """List the words that occur so often in texts, the most frequent first, ties by spelling.

    >>> common_words(["A barn owl, an owl", "the Barn 2 2"], least=2, most=9)
    ['barn', 'owl']
    """
    counts = Counter(word for text in texts for word in _WORD.findall(text.lower()))
    found = [word for word, count in counts.items() if count >= least]
    return sorted(found, key=lambda word: (-counts[word], word))[:most]


def read_lines(path: Path) -> list[str]:
    """Read a file of texts, one on each line; empty lines are left out."""
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Damaged(
            f"{path} cannot be read as text ({error}); one text a line is expected"
        ) from error
    return [line for line in content.splitlines() if line.strip()]


def _asked(content: Sequence[object]) -> AskedQuery:
    text, documents, kind = content
    assert isinstance(documents, list)
    return AskedQuery(str(text), tuple(int(each) for each in documents), str(kind))


def _choose_twice(
    names: Sequence[Names], places: Sequence[int], *, most_judged: int, most_looked: int, seed: int
) -> tuple[set[int], set[int]]:
    """Choose documents that give queries to report on, and others that give queries to look at."""
    judged = set(_choose(names, places, most=most_judged, one_in=_JUDGED_SHARE, seed=seed))
    others = [at for at in places if at not in judged]
    return judged, set(_choose(names, others, most=most_looked, one_in=_LOOKED_SHARE, seed=seed))


def _choose(
    names: Sequence[Names], places: Sequence[int], *, most: int, one_in: int, seed: int
) -> list[int]:
    """Choose documents that give queries to judge by."""
    place_by_docid = {names[at].docid: at for at in places}
    count = min(most, -(-len(places) // one_in))
    if not count:
        return []
    held = hold_out_documents(list(place_by_docid), share=count / len(places), seed=seed)
    found = sorted(place_by_docid[docid] for docid in held)
    return [found[at] for at in spread(len(found), count)]


def _look_labelled(asked: Sequence[AskedQuery], *, most: int, seed: int) -> list[AskedQuery]:
    """Take some labelled queries to look at, each with all its documents."""
    asked_by_key: dict[str, list[AskedQuery]] = {}
    for each in asked:
        asked_by_key.setdefault(each.text.lower(), []).append(each)
    count = min(most, len(asked_by_key) // _LOOKED_SHARE)
    chosen = sorted(random.Random(f"{seed} looked").sample(sorted(asked_by_key), count))
    found = []
    for own in (asked_by_key[key] for key in chosen):
        documents = sorted({at for each in own for at in each.documents})
        found.append(AskedQuery(own[0].text, tuple(documents), LABELLED))
    return found


def _give(names: Names, owners: Counter[str], *, seed: int) -> str:
    """Choose the name that a document gives away: one that no other has, rather no sentence."""
    own = [text for text in names.texts if owners[text.lower()] == 1]
    asked = [text for text in own if text not in names.sentences]
    return random.Random(f"{seed} {names.docid}").choice(asked or own)


def _kind(names: Names, text: str) -> str:
    return SENTENCES if text in names.sentences else PSEUDO


def _drop_letter(word: str, chance: random.Random) -> str:
    at = chance.randrange(len(word))
    return word[:at] + word[at + 1 :]
