from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from quoth.models.dynamic_lm.unfolding import unfold

PHRASES = ((1, 2), (3,), (4, 5, 6))


@given(tokens=st.lists(st.integers(0, 12), max_size=12))
def test_every_token_ends_where_its_own_subwords_end(tokens: list[int]) -> None:
    found = unfold(tokens, num_subwords=10, phrases=PHRASES)
    for at, _token in enumerate(tokens):
        before = unfold(tokens[: at + 1], num_subwords=10, phrases=PHRASES).subword_ids
        assert found.subword_ids[: found.last[at] + 1] == before
