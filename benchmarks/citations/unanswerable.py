"""Make training questions that their passages do not answer, of several kinds and hardness.

| kind | what the passages lack |
|---|---|
| own | nothing: the passage that answers stands among BM25's neighbours |
| neighbours | the passage that answers |
| cut | the sentences that hold the answer, of the passage that answers |
| article | another passage of the same article, which the question is about |
| aspect | the document on the same disease that the question is about (medquad) |
| swapped | what is asked: a name, number or word of the question is replaced by another |
| (trained on alone) | what is asked: a word of the question is its opposite (`contradict`) |

A passage with a sentence cut out is asked what it still answers, too, so that its looks say
nothing. Two in five passages are asked in lower case without a question mark, as search engines
are. Whether a swapped question has an answer after all is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from quoth.answer.noun_phrases import STOP_WORDS
from quoth.text.blocks import split_sentences

NUM_PASSAGES = 3
LOWER_CASE_SHARE = 0.4
_NAME = re.compile(r"(?<!^)(?<![.?!] )\b[A-Z][\w'’-]+(?:\s+(?:of |the )?[A-Z][\w'’-]+)*")
_NUMBER = re.compile(r"\b\d[\d,.]*\d\b|\b\d\b")
_WORD = re.compile(r"(?<!^)\b[a-z]{5,}\b")
_WORDS = re.compile(r"\b[A-Za-z]+\b")
_VERB = re.compile(r"\b(?:did|does|is|was|were|are|has|had|could|would|should)\b(?! not|n't)")
_PAIRS = """
    first last / most least / more less / largest smallest / biggest smallest / highest lowest /
    before after / north south / east west / northern southern / eastern western / early late /
    old new / oldest newest / long short / longest shortest / increase decrease / rise fall /
    increased decreased / rose fell / gain lose / gained lost / win lose / won lost / best worst /
    good bad / start end / started ended / begin end / began ended / beginning end /
    inside outside / above below / male female / men women / man woman /
    father mother / son daughter /
    allow forbid / allowed forbidden / accept reject /
    accepted rejected / support oppose / supported opposed /
    add remove / added removed / buy sell / bought sold / open close / opened closed / join leave /
    joined left / arrive leave / arrived departed / enter leave / positive negative / always never /
    public private / major minor / rich poor / strong weak / hot cold / high low / higher lower /
    maximum minimum / earliest latest / fastest slowest / popular unpopular / common rare /
    include exclude / included excluded / likely unlikely / successful unsuccessful / during after /
    appear disappear / create destroy / created destroyed / built demolished / internal external
"""
_OPPOSITES = {
    one: other
    for pair in _PAIRS.replace("\n", " ").split("/")
    for one, other in (pair.split(), pair.split()[::-1])
}


@dataclass(frozen=True)
class Asked:
    """A question with the answers that stand in its passage; none where that is not known."""

    text: str
    answers: tuple[str, ...]


@dataclass(frozen=True)
class Scene:
    """A passage, its nearest others, what it answers, and what others of its article answer."""

    passage: str
    near: tuple[str, ...]
    asked: tuple[Asked, ...]
    others: tuple[Asked, ...]
    other_kind: str = "article"
    is_swappable: bool = True


@dataclass(frozen=True)
class Case:
    """A question put to passages, and the kind that says whether they answer it."""

    question: str
    passages: tuple[str, ...]
    kind: str
    answers: tuple[str, ...] = ()
    """Stretches of the passages that answer, the whole passage where no shorter one is known."""

    @property
    def is_answerable(self) -> bool:
        """Whether the passages hold an answer."""
        return self.kind == "own"


def make_cases(scene: Scene, *, seed: int) -> list[Case]:
    """Ask a scene all kinds of questions; none where it has too few neighbours."""
    chance = np.random.default_rng(seed)
    first = scene.asked[0]
    near = [text for text in scene.near if not holds([text], first.answers)]
    if len(near) < NUM_PASSAGES:
        return []
    shown = _shuffle([scene.passage, *near[: NUM_PASSAGES - 1]], chance)
    own = (scene.passage,)
    cases = [Case(each.text, shown, "own", each.answers or own) for each in scene.asked[:2]]
    foreign = [each for each in scene.others if not holds(shown, each.answers)]
    cases += [Case(each.text, shown, scene.other_kind) for each in foreign[:2]]
    pool = [each.text for each in foreign[:30]]
    for each in scene.asked[:2] if scene.is_swappable else ():
        swapped = swap(each.text, (shown, pool)[int(chance.integers(2))], chance)
        if swapped:
            cases.append(Case(swapped, shown, "swapped"))
    cases += _cut_cases(scene, near[: NUM_PASSAGES - 1], chance)
    cases.append(Case(first.text, _shuffle(near[:NUM_PASSAGES], chance), "neighbours"))
    if chance.random() < LOWER_CASE_SHARE:
        cases = [replace(each, question=each.question.lower().rstrip("?. ")) for each in cases]
    return cases


def _cut_cases(scene: Scene, near: Sequence[str], chance: np.random.Generator) -> Iterator[Case]:
    first = scene.asked[0]
    if not first.answers:
        return
    spans = split_sentences(scene.passage)
    sentences = [scene.passage[span.start : span.end] for span in spans]
    left = [each for each in sentences if not holds([each], first.answers)]
    text = " ".join(left)
    if len(left) < 2 or len(left) == len(sentences) or holds([text], first.answers):
        return
    shown = _shuffle([text, *near], chance)
    yield Case(first.text, shown, "cut")
    for each in [each for each in scene.asked[1:] if holds([text], each.answers)][:2]:
        yield Case(each.text, shown, "own", each.answers)


def swap(question: str, texts: Sequence[str], chance: np.random.Generator) -> str:
    """Replace a name, number or long word by one of its kind from texts; "" where none fits.

    >>> chance = np.random.default_rng(0)
    >>> swap("Who lived in Ravenna?", ["It was in Padua."], chance)
    'Who lived in Padua?'
    """
    preferred = [_NAME, _NUMBER] if chance.random() < 0.5 else [_NUMBER, _NAME]
    patterns = [*preferred, _WORD] if chance.random() < 0.75 else [_WORD, *preferred]
    held = set(re.findall(r"\w+", question.lower()))
    for pattern in patterns:
        own = [each for each in pattern.finditer(question) if _tells(each[0])]
        pool = [
            each[0]
            for text in texts
            for each in pattern.finditer(text)
            if _tells(each[0]) and not held & set(re.findall(r"\w+", each[0].lower()))
        ]
        if own and pool:
            place = own[int(chance.integers(len(own)))]
            alike = [each for each in pool if _looks(each) == _looks(place[0])] or pool
            chosen = alike[int(chance.integers(len(alike)))]
            return question[: place.start()] + chosen + question[place.end() :]
    return ""


def contradict(question: str, chance: np.random.Generator) -> str:
    """Turn a word of a question into its opposite, or deny its verb; "" where neither is found.

    >>> contradict("Which owl is the largest?", np.random.default_rng(0))
    'Which owl is the smallest?'
    >>> contradict("Who did Poe admire?", np.random.default_rng(0))
    "Who didn't Poe admire?"
    """
    opposites = [each for each in _WORDS.finditer(question) if each[0].lower() in _OPPOSITES]
    verbs = list(_VERB.finditer(question))
    chosen = opposites or verbs
    if not chosen:
        return ""
    place = chosen[int(chance.integers(len(chosen)))]
    new = _OPPOSITES[place[0].lower()] if opposites else f"{place[0]}n't"
    return question[: place.start()] + new + question[place.end() :]


def holds(texts: Sequence[str], answers: Sequence[str]) -> bool:
    """Whether texts hold one of the answers, whatever its case."""
    joined = " ".join(texts).casefold()
    return any(answer.casefold() in joined for answer in answers)


def _tells(word: str) -> bool:
    return word.lower() not in STOP_WORDS


def _looks(words: str) -> tuple[int, int, str]:
    """What a word should share with one it replaces: words, digits, and its last letters."""
    is_lower = words.islower()
    digits = len(words) if words[0].isdigit() else 0
    return len(words.split()), digits, words[-2:] if is_lower else ""


def _shuffle(texts: Sequence[str], chance: np.random.Generator) -> tuple[str, ...]:
    return tuple(texts[at] for at in chance.permutation(len(texts)))
