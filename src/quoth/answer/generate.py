"""Generate texts over subwords and phrases, each text with phrases of its own.

Follows the decoding of "Generation with Dynamic Vocabulary": at every step the scores of all
subwords and of the phrases on offer stand side by side, and one token is chosen, the best or one
drawn from the nucleus. A phrase is one position and one entry of the cache; where the model reads
phrases unfolded, it is as many as it has subwords.

Texts of a batch share one forward pass: prompts are padded on the left, steps of unequal length on
the right, and positions count what is not padding. Scores of phrases are computed text by text, so
a batch needs no more memory than its largest vocabulary, and gives what each text would get alone.

What is on offer may change while a text grows: it grows by a share of the phrases every few tokens,
or by what a caller adds; and it loses phrases that were not among the best for long. Neither
changes the scores of what stays, nor anything that was read.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from quoth.answer.cite import Token
from quoth.answer.config import DecodingConfig
from quoth.answer.splices import OpenQuotation, Place
from quoth.interruption import check_interruption
from quoth.models.dynamic_lm.dynamic_lm import DynamicLM
from quoth.vocabulary.dynamic import DynamicVocabulary

Decode = Callable[[Sequence[int]], str]
"""Subwords to text."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a text continues, and the phrases it may use: vectors (C, D), one per row."""

    subword_ids: tuple[int, ...]
    vocabulary: DynamicVocabulary
    vectors: Tensor
    handicaps: tuple[float, ...] = ()
    """Taken off the scores of the first rows where they would begin the text."""

    phrase_first: bool = False
    """Whether the text begins with a phrase, where any is on offer."""

    splice_penalty: float = 0.0
    """Taken off the scores of phrases that do not go on where what is quoted before them ended."""

    passages: tuple[str, ...] = ()
    """What the phrases were cut from, to follow quotations where splices are penalised."""

    guidance: tuple[float, ...] = ()
    """Added to the scores of the first rows at every step: what a reader says of their places."""


def generate(
    model: DynamicLM, prompts: Sequence[Prompt], *, config: DecodingConfig
) -> list[tuple[Token, ...]]:
    """Generate one text per prompt."""
    texts: list[list[Token]] = [[] for _prompt in prompts]
    for step in Decoder(model, prompts, config=config).steps():
        for number, token in step:
            texts[number].append(token)
    return [tuple(tokens) for tokens in texts]


class Decoder:
    """Texts in the making; `steps` gives their tokens as they are chosen."""

    def __init__(
        self,
        model: DynamicLM,
        prompts: Sequence[Prompt],
        *,
        config: DecodingConfig,
    ) -> None:
        self._network = model.network
        self._device = model.device
        self._unfolds = model.config.phrase_input == "unfold"
        self._end_ids = frozenset(model.inputs.end_ids)
        banned = sorted(model.inputs.special_ids - self._end_ids)
        self._banned = torch.tensor(banned, dtype=torch.long, device=self._device)
        self._texts = [_Text(prompt, config, model.inputs.text) for prompt in prompts]
        self._live = list(range(len(prompts)))  # the text of each row of the batch
        self._cache = model.network.new_cache()
        self._chosen: list[Token] = []
        self._mask = torch.zeros((len(prompts), 0), dtype=torch.bool, device=self._device)
        self._states = self._no_vectors()  # (B, D), after what was read
        if prompts:
            self._read([prompt.subword_ids for prompt in prompts], pad_left=True)

    def steps(self) -> Iterator[list[tuple[int, Token]]]:
        """Choose a token for every unfinished text, until none is left; texts by their number."""
        while self._live:
            check_interruption()
            yield self._step()

    def vocabulary(self, number: int) -> DynamicVocabulary:
        """Return what a text is offered now."""
        return self._texts[number].vocabulary

    def grow(self, number: int, vocabulary: DynamicVocabulary, vectors: Tensor) -> None:
        """Offer a text a vocabulary grown from its own; vectors (C, D) of all its rows."""
        self._texts[number].take(vocabulary, vectors)

    @torch.inference_mode()
    def beginning_probabilities(self, subword_ids: Sequence[int]) -> list[float]:
        """Return each text's probability of beginning like this; before the first step only."""
        states = self._states[:, None]  # (B, 1, D)
        if len(subword_ids) > 1:
            rows = [list(subword_ids[:-1])] * len(self._live)
            ids = torch.tensor(rows, device=self._device)
            embedded = self._network.embed(ids, phrase_vectors=self._no_vectors())
            mask = torch.cat([self._mask, torch.ones_like(ids, dtype=torch.bool)], dim=1)
            read = self._network.states(embedded, mask=mask, cache=self._cache)
            states = torch.cat([states, read], dim=1)
            self._cache.crop(-ids.shape[1])  # forget what was only tried
        wanted = torch.tensor(list(subword_ids), device=states.device)
        found = []
        for at, number in enumerate(self._live):
            scores = self._scores(states[at], self._texts[number])  # (L, V + C)
            logs = scores.log_softmax(1).gather(1, wanted[:, None])
            found.append(math.exp(float(logs.sum())))
        return found

    @torch.inference_mode()
    def first_scores(self) -> list[Tensor]:
        """Return each text's scores of the phrases on offer (C,); before the first step only."""
        size = self._network.num_subwords
        return [
            self._scores(self._states[at : at + 1], self._texts[number])[0, size:]
            for at, number in enumerate(self._live)
        ]

    @torch.inference_mode()
    def _step(self) -> list[tuple[int, Token]]:
        if self._chosen:
            self._read_chosen()
        chosen = [(number, self._choose(at, number)) for at, number in enumerate(self._live)]
        kept = [at for at, (number, _token) in enumerate(chosen) if self._goes_on(number)]
        step = [(number, token) for number, token in chosen if token is not None]
        self._chosen = [token for at in kept if (token := chosen[at][1]) is not None]
        self.keep(kept)
        return step

    def _goes_on(self, number: int) -> bool:
        return not self._texts[number].is_finished

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some rows of the batch only; before the first step they are the texts."""
        if len(rows) == len(self._live):
            return
        self._live = [self._live[at] for at in rows]
        if rows:
            index = torch.tensor(list(rows), device=self._device)
            self._cache.batch_select_indices(index)
            self._mask, self._states = self._mask[index], self._states[index]

    def _choose(self, at: int, number: int) -> Token | None:
        """Choose a text's next token; None where it ends."""
        text = self._texts[number]
        scores = self._scores(self._states[at : at + 1], text)[0]
        text.adjust(scores, self._network.num_subwords)
        text.note_best(scores[self._network.num_subwords :])
        token_id = text.choose(scores, self._network.num_subwords)
        logarithm = float(scores.log_softmax(0)[token_id])
        if token_id in self._end_ids:
            text.is_finished = True
            return None
        token = text.token(token_id, self._network.num_subwords, logarithm)
        text.append(token)
        return token

    def _scores(self, states: Tensor, text: _Text) -> Tensor:  # (L, V + C)
        """Score subwords and the phrases on offer after states (L, D)."""
        subwords = self._network.subword_scores(states).float()
        if len(self._banned):
            subwords[:, self._banned] = -torch.inf
        if not len(text.rows):
            return subwords
        phrases = self._network.phrase_scores(states, text.offered_vectors).float()
        phrases = phrases.masked_fill(text.offered_lengths > text.room, -torch.inf)
        return torch.cat([subwords, phrases], dim=1)

    def _read_chosen(self) -> None:
        self._read([token.subword_ids for token in self._chosen], tokens=self._chosen)

    @torch.inference_mode()
    def _read(
        self,
        rows: Sequence[Sequence[int]],
        *,
        tokens: Sequence[Token] = (),
        pad_left: bool = False,
    ) -> None:
        """Let the network read one stretch per text; phrases as one vector unless unfolded."""
        vectors: list[Tensor] = []
        ids = [list(row) for row in rows]
        for at, token in enumerate(tokens):
            if token.row is not None and not self._unfolds:
                ids[at] = [self._network.num_subwords + len(vectors)]
                vectors.append(self._texts[self._live[at]].vectors[token.row])
        padded, mask = _pad(ids, left=pad_left)
        embedded = self._network.embed(
            padded.to(self._device),
            phrase_vectors=torch.stack(vectors) if vectors else self._no_vectors(),
        )
        self._mask = torch.cat([self._mask, mask.to(self._device)], dim=1)
        states = self._network.states(embedded, mask=self._mask, cache=self._cache)
        last = (
            torch.full((len(ids),), padded.shape[1] - 1)
            if pad_left
            else torch.tensor([len(row) - 1 for row in ids])
        )
        self._states = states[torch.arange(len(ids)), last.to(states.device)]

    def _no_vectors(self) -> Tensor:  # (0, D)
        return torch.zeros((0, self._network.phrase_width), device=self._device)


class _Text:
    """One text in the making: what it has written, and what it is offered."""

    def __init__(self, prompt: Prompt, config: DecodingConfig, decode: Decode) -> None:
        self._config = config
        self._prompt = prompt
        self._quotation = OpenQuotation(prompt.passages, decode)
        self._chance = torch.Generator().manual_seed(config.seed)
        self._written: list[int] = []
        self._stretches: set[tuple[int, ...]] = set()
        self._uses: Counter[int] = Counter()
        self._num_tokens = 0
        self._planned = prompt.vocabulary.offered if config.phrases else ()
        self._last_best: dict[int, int] = {}
        self.is_finished = False
        self.take(prompt.vocabulary.offer(self._planned[: self._share(0)]), prompt.vectors)

    @property
    def room(self) -> int:
        """Subwords that still fit."""
        return self._config.max_subwords - len(self._written)

    def take(self, vocabulary: DynamicVocabulary, vectors: Tensor) -> None:
        """Offer exactly what a vocabulary offers."""
        self.vocabulary, self.vectors = vocabulary, vectors
        self.rows = list(vocabulary.offered)
        index = torch.tensor(self.rows, dtype=torch.long, device=vectors.device)
        self.offered_vectors = vectors[index]  # (C, D)
        lengths = [len(vocabulary.candidates[row].subword_ids) for row in self.rows]
        self.offered_lengths = torch.tensor(lengths, dtype=torch.long, device=vectors.device)
        self._guidance = self._by_row(self._prompt.guidance)
        self._rows_by_start = self._index_starts() if self._prompt.splice_penalty else {}
        for row in self.rows:
            self._last_best.setdefault(row, self._num_tokens)

    def _index_starts(self) -> dict[Place, list[int]]:
        found: dict[Place, list[int]] = {}
        for at, row in enumerate(self.rows):
            for source in self.vocabulary.candidates[row].sources:
                found.setdefault((source.passage, source.span.start), []).append(at)
        return found

    def token(self, token_id: int, num_subwords: int, logarithm: float) -> Token:
        """Make a token of its id among subwords and phrases on offer."""
        if token_id < num_subwords:
            return Token((token_id,), None, logarithm)
        row = self.rows[token_id - num_subwords]
        return Token(self.vocabulary.candidates[row].subword_ids, row, logarithm)

    def choose(self, scores: Tensor, num_subwords: int) -> int:
        """Choose among scores (V + C,), passing over what would repeat."""
        while True:
            token_id = self._pick(scores)
            ids = self.token(token_id, num_subwords, 0.0).subword_ids
            if not self._repeats(ids) or torch.isinf(scores).sum() >= len(scores) - 1:
                return token_id
            scores = scores.clone()
            scores[token_id] = -torch.inf

    def adjust(self, scores: Tensor, num_subwords: int) -> None:
        """Change scores (V + C,) in place: what a text begins with, guidance, what is spliced."""
        if not self._written and self.rows:
            self._adjust_beginning(scores, num_subwords)
        if self._prompt.guidance:
            scores[num_subwords:] += self._guidance.to(scores.device)
        if self._prompt.splice_penalty and self._quotation.is_open:
            elsewhere = torch.full((len(self.rows),), self._prompt.splice_penalty)
            elsewhere[self._going_on()] = 0.0
            scores[num_subwords:] -= elsewhere.to(scores.device)

    def _going_on(self) -> list[int]:
        """List which of the rows on offer stand right behind what was quoted."""
        starts = self._quotation.next_starts
        return [at for place in starts for at in self._rows_by_start.get(place, ())]

    def _adjust_beginning(self, scores: Tensor, num_subwords: int) -> None:
        if self._prompt.phrase_first:
            scores[:num_subwords] = -torch.inf
        scores[num_subwords:] -= self._by_row(self._prompt.handicaps).to(scores.device)

    def _by_row(self, values: Sequence[float]) -> Tensor:  # (C,)
        """Return the values of the rows on offer; rows that joined since have none."""
        known = len(values)
        return torch.tensor([values[row] if row < known else 0.0 for row in self.rows])

    def append(self, token: Token) -> None:
        """Write a token; then let the offer grow or shrink as configured."""
        if self._prompt.splice_penalty:
            self._follow(token)
        span = self._config.no_repeat_subwords
        for subword in token.subword_ids:
            self._written.append(subword)
            if span and len(self._written) >= span:
                self._stretches.add(tuple(self._written[-span:]))
        self._num_tokens += 1
        if self.room <= 0:
            self.is_finished = True
        if token.row is not None:
            self._uses[token.row] += 1
            self._last_best[token.row] = self._num_tokens
        self._change_offer(token.row)

    def _follow(self, token: Token) -> None:
        if token.row is None:
            self._quotation.write(token.subword_ids)
        else:
            self._quotation.quote(self.vocabulary.candidates[token.row])

    def note_best(self, phrase_scores: Tensor) -> None:
        """Remember which phrases are among the best, where others are to be off-loaded."""
        if self._config.off_load_after and len(phrase_scores):
            count = min(self._config.best_kept, len(phrase_scores))
            for at in phrase_scores.topk(count).indices.tolist():
                self._last_best[self.rows[at]] = self._num_tokens + 1

    def _change_offer(self, row: int | None) -> None:
        most, after = self._config.max_phrase_uses, self._config.off_load_after
        gone = {row} if row is not None and most and self._uses[row] >= most else set()
        if after:
            gone |= {
                each for each in self.rows if self._num_tokens - self._last_best[each] >= after
            }
        before, now = self._share(self._num_tokens - 1), self._share(self._num_tokens)
        new = self._planned[before:now]
        if gone or new:
            rows = {*self.rows, *new} - {each for each in gone if each is not None}
            self.take(self.vocabulary.offer(rows), self.vectors)

    def _share(self, num_tokens: int) -> int:
        """How many of the planned phrases are on offer after so many tokens."""
        growths = num_tokens // self._config.growth_every
        share = self._config.first_share + self._config.growth_share * growths
        return math.ceil(len(self._planned) * min(1.0, share) - 1e-9)

    def _pick(self, scores: Tensor) -> int:
        if self._config.method == "greedy":
            return int(scores.argmax())
        return draw_from_nucleus(
            scores / self._config.temperature, share=self._config.nucleus, chance=self._chance
        )

    def _repeats(self, subword_ids: tuple[int, ...]) -> bool:
        span = self._config.no_repeat_subwords
        if not span:
            return False
        written = [*self._written[1 - span :], *subword_ids] if span > 1 else list(subword_ids)
        new = [tuple(written[at : at + span]) for at in range(len(written) - span + 1)]
        return any(stretch in self._stretches for stretch in new) or len(new) > len(set(new))


def draw_from_nucleus(scores: Tensor, *, share: float, chance: torch.Generator) -> int:
    """Draw a place of scores (C,) from the fewest whose probabilities add up to a share.

    >>> draw_from_nucleus(torch.tensor([0.0, 9.0, 1.0]), share=0.9, chance=torch.Generator())
    1
    """
    ordered = scores.softmax(0).sort(descending=True)
    before = ordered.values.cumsum(0) - ordered.values
    kept = ordered.values[before < share].cpu()  # the best is always among them
    return int(ordered.indices[int(torch.multinomial(kept, 1, generator=chance))])


def _pad(rows: Sequence[Sequence[int]], *, left: bool) -> tuple[Tensor, Tensor]:
    """Pad rows to one length; gives ids and where they are no padding, both (B, T)."""
    length = max(len(row) for row in rows)
    ids = torch.zeros((len(rows), length), dtype=torch.long)
    mask = torch.zeros((len(rows), length), dtype=torch.bool)
    for at, row in enumerate(rows):
        place = slice(length - len(row), length) if left else slice(0, len(row))
        ids[at, place] = torch.tensor(list(row))
        mask[at, place] = True
    return ids, mask
