"""How queries are written, one token after the other: greedy, beam, nucleus.

Pure functions over a step, `step(tokens, parents) -> logits` (see `network.Decoding`): they know
rows and tokens, not networks. Chance comes in as uniform numbers drawn beforehand, one per row and
step, so that what is sampled for a passage does not depend on which batch it is in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Step = Callable[[Tensor, Tensor | None], Tensor]
"""Append a token to each row, of the parents' rows if given; logits (R, V) of what follows."""

_NEVER = float("-inf")
_LOOKS = (256, 4096)


@dataclass(frozen=True, slots=True)
class DecodingRules:
    """What a query may look like."""

    prefix: tuple[int, ...]
    """What the decoder reads before it writes the first token."""

    end: int
    """The token that ends a query; no query is empty, so it is never the first."""

    max_length: int
    """Most tokens, the end included."""

    banned: tuple[int, ...] = ()
    """Tokens that are never written."""

    banned_first: tuple[int, ...] = ()
    """Tokens that are not written first."""

    no_repeat: int = 3
    """Length of the runs of tokens that may not occur twice; 0 allows all."""


def greedy(step: Step, rows: int, rules: DecodingRules, device: torch.device) -> list[list[int]]:
    """Take the likeliest token every time."""
    return _write(step, rows, rules, device, lambda logits, _at, _rows: logits.argmax(1))


def nucleus(
    step: Step,
    uniforms: Tensor,
    rules: DecodingRules,
    *,
    top_p: float = 0.92,
    temperature: float = 1.0,
) -> list[list[int]]:
    """Draw every token from the smallest set that holds `top_p` of the probability.

    `uniforms` (R, max_length) in [0, 1) decide: token t of row r is drawn by uniforms[r, t].
    """
    return _write(
        step,
        len(uniforms),
        rules,
        uniforms.device,
        lambda logits, at, rows: draw(logits / temperature, uniforms[rows, at], top_p=top_p),
    )


def beam(
    step: Step,
    num_passages: int,
    rules: DecodingRules,
    device: torch.device,
    *,
    width: int = 4,
    length_penalty: float = 1.0,
) -> list[list[list[int]]]:
    """Search for the `width` likeliest queries of each passage, best first.

    Likelihood is divided by the number of tokens, end included, to the power of `length_penalty`.
    The rows of one passage stand together. All passages go on until `width` queries are done and
    none that is open is better at its present length, or until there is no room left.
    """
    search = _Beams(num_passages, rules, width, length_penalty, device)
    logits = _read_prefix(step, num_passages * width, rules, device)
    for at in range(rules.max_length):
        log_probs = constrain(logits.log_softmax(1), search.written, rules, at=at)
        tokens, parents = search.extend(log_probs, at=at)
        if search.is_done(at + 1):
            break
        logits = step(tokens, parents)
    return search.finished()


def draw(logits: Tensor, uniforms: Tensor, *, top_p: float) -> Tensor:  # (R,)
    """Draw one token per row from its nucleus, by the inverse of the cumulated probability.

    Most nuclei lie among the few likeliest tokens; only rows where they do not are sorted further.

    >>> logits = torch.tensor([[0.5, 0.3, 0.2]]).log().expand(3, -1)
    >>> draw(logits, torch.tensor([0.0, 0.6, 0.99]), top_p=0.7).tolist()  # 0.5 / 0.8 is 0.625
    [0, 0, 1]
    """
    probs = logits.float().softmax(1)
    drawn = torch.zeros(len(probs), dtype=torch.int64, device=probs.device)
    left = torch.arange(len(probs), device=probs.device)
    for look in (*_LOOKS, probs.shape[1]):
        best, ids = probs[left].topk(min(look, probs.shape[1]))
        drawn[left] = _draw_sorted(best, ids, uniforms[left], top_p)
        left = left[best.sum(1) < top_p]
        if not len(left):
            break
    return drawn


def constrain(logits: Tensor, written: Tensor, rules: DecodingRules, *, at: int) -> Tensor:
    """Make impossible what the rules forbid after `at` tokens; `written` is (R, at)."""
    logits = logits.clone()
    logits[:, list(rules.banned)] = _NEVER
    if at == 0:
        logits[:, [rules.end, *rules.banned_first]] = _NEVER
    if at == rules.max_length - 1:
        keep = logits[:, rules.end].clone()
        logits.fill_(_NEVER)
        logits[:, rules.end] = torch.where(keep.isfinite(), keep, 0.0)
    elif rules.no_repeat and at >= rules.no_repeat:
        logits = logits.masked_fill(repeats(written, logits.shape[1], rules.no_repeat), _NEVER)
    return logits


def repeats(written: Tensor, vocabulary: int, length: int) -> Tensor:  # (R, V) bool
    """Mark the tokens that would complete a run of `length` tokens that occurred before.

    >>> repeats(torch.tensor([[1, 2, 3, 1, 2]]), 5, 3).nonzero().tolist()
    [[0, 3]]
    """
    found = torch.zeros(len(written), vocabulary, dtype=torch.bool, device=written.device)
    if written.shape[1] < length:
        return found
    runs = written.unfold(1, length, 1)  # (R, runs, length)
    last = written[:, None, written.shape[1] - length + 1 :]
    same = (runs[:, :, :-1] == last).all(2)
    rows, places = same.nonzero(as_tuple=True)
    found[rows, runs[rows, places, -1]] = True
    return found


def distinct(queries: Iterable[str], *, count: int) -> list[str]:
    """Keep the first few queries that differ in more than case, and are not blank.

    >>> distinct(["Owls?", "", "owls?", "barn owls", "mice"], count=2)
    ['Owls?', 'barn owls']
    """
    first: dict[str, str] = {}
    for query in queries:
        if query.strip():
            first.setdefault(query.casefold(), query)
    return list(first.values())[:count]


def draw_uniforms(rows: int, length: int, *, seed: Sequence[int]) -> Tensor:  # (rows, length)
    """Draw the chance of a whole call, seeded."""
    mixed = 0
    for part in seed:
        mixed = (mixed * 1_000_003 + part + 1) % (1 << 63)
    return torch.rand(rows, length, generator=torch.Generator().manual_seed(mixed))


def _write(
    step: Step,
    rows: int,
    rules: DecodingRules,
    device: torch.device,
    choose: Callable[[Tensor, int, Tensor], Tensor],
) -> list[list[int]]:
    """Let `choose` pick every token until all rows have ended; give them without the end.

    It is given the logits of the rows that are open, how much is written, and which rows they are.
    """
    written = torch.empty(rows, 0, dtype=torch.int64, device=device)
    left = torch.arange(rows, device=device)
    logits = _read_prefix(step, rows, rules, device)
    for at in range(rules.max_length):
        tokens = torch.full((rows,), rules.end, device=device)
        tokens[left] = choose(constrain(logits[left], written[left], rules, at=at), at, left)
        written = torch.cat((written, tokens[:, None]), dim=1)
        left = left[tokens[left] != rules.end]
        if at + 1 == rules.max_length or not len(left):
            break
        logits = step(tokens, None)
    return [_cut(row, rules.end) for row in written.tolist()]


def _read_prefix(step: Step, rows: int, rules: DecodingRules, device: torch.device) -> Tensor:
    logits = torch.empty(0)
    for token in rules.prefix:
        logits = step(torch.full((rows,), token, device=device), None)
    return logits


def _draw_sorted(probs: Tensor, ids: Tensor, uniforms: Tensor, top_p: float) -> Tensor:
    """Draw from rows sorted by falling probability; the token that crosses `top_p` belongs."""
    before = probs.cumsum(1) - probs
    mass = probs.masked_fill(before >= top_p, 0.0).cumsum(1)
    wanted = (uniforms[:, None] * mass[:, -1:]).to(mass.dtype)
    place = torch.searchsorted(mass, wanted, right=True)
    last = (before < top_p).sum(1, keepdim=True) - 1  # rounding may lead past the nucleus
    return ids.gather(1, place.minimum(last))[:, 0]


def _cut(tokens: list[int], end: int) -> list[int]:
    return tokens[: tokens.index(end)] if end in tokens else tokens


class _Beams:
    """Open and finished queries of all passages."""

    def __init__(
        self,
        num_passages: int,
        rules: DecodingRules,
        width: int,
        penalty: float,
        device: torch.device,
    ) -> None:
        self._rules, self._width, self._penalty = rules, width, penalty
        self._num_passages = num_passages
        self.written = torch.empty(num_passages * width, 0, dtype=torch.int64, device=device)
        self._scores = torch.full((num_passages, width), _NEVER, device=device)
        self._scores[:, 0] = 0.0  # all rows of a passage are equal at first: one may go on
        self._done: list[list[tuple[float, list[int]]]] = [[] for _ in range(num_passages)]

    def extend(self, log_probs: Tensor, *, at: int) -> tuple[Tensor, Tensor]:
        """Keep the best continuations; those that end are put aside. Gives tokens and parents."""
        vocabulary = log_probs.shape[1]
        total = self._scores[:, :, None] + log_probs.view(self._num_passages, self._width, -1)
        best, places = total.flatten(1).topk(2 * self._width)  # at most half of them end
        first = torch.arange(self._num_passages, device=places.device)[:, None] * self._width
        parents, tokens = places // vocabulary + first, places % vocabulary
        ends = tokens == self._rules.end
        self._put_aside(best, parents, ends, at=at)
        best = best.masked_fill(ends, _NEVER)
        self._scores, chosen = best.topk(self._width)
        parents = parents.gather(1, chosen).flatten()
        tokens = tokens.gather(1, chosen).flatten()
        self.written = torch.cat((self.written[parents], tokens[:, None]), dim=1)
        return tokens, parents

    def is_done(self, length: int) -> bool:
        """Whether no open query of any passage is among its best, as far as it is written."""
        share = length**self._penalty
        for open_score, done in zip(self._scores[:, 0].tolist(), self._done, strict=True):
            if open_score == _NEVER:
                continue
            if len(done) < self._width or open_score / share > done[self._width - 1][0]:
                return False
        return True

    def finished(self) -> list[list[list[int]]]:
        """Return each passage's queries, best first."""
        return [[tokens for _score, tokens in done[: self._width]] for done in self._done]

    def _put_aside(self, best: Tensor, parents: Tensor, ends: Tensor, *, at: int) -> None:
        for passage, place in (ends & best.isfinite()).nonzero().tolist():
            score = float(best[passage, place]) / (at + 1) ** self._penalty
            tokens = self.written[int(parents[passage, place])].tolist()
            self._done[passage].append((score, tokens))
        for done in self._done:
            done.sort(key=lambda each: -each[0])
