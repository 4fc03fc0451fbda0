"""Runs are the tokens that they stand for, and tell their stretches apart as the tokens would."""

from hypothesis import given
from hypothesis import strategies as st

from tuner.twin.token_runs import TokenRuns

tokens = st.lists(st.integers(0, 2), max_size=40)


@given(tokens)
def test_they_are_their_tokens(plain: list[int]) -> None:
    runs = TokenRuns(plain)
    assert list(runs) == plain and len(runs) == len(plain)
    assert [runs[place] for place in range(-len(plain), len(plain))] == plain * 2
    assert runs[1:7:2] == plain[1:7:2]


@given(tokens, tokens, st.sampled_from([1, 3, 4]))
def test_blocks_have_equal_keys_exactly_where_their_tokens_are_equal(
    one: list[int], other: list[int], size: int
) -> None:
    pairs = []
    for plain in (one, other):
        keys = TokenRuns(plain).keys(len(plain) // size, size)
        assert len(keys) == len(plain) // size
        pairs += [(tuple(plain[size * place :][:size]), key) for place, key in enumerate(keys)]
    assert len(set(pairs)) == len({block for block, _ in pairs}) == len({key for _, key in pairs})


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(1, 5), st.integers(0, 3), st.integers(0, 9))
def test_even_ones_and_what_is_added_are_as_if_made_of_tokens(
    values: list[int], each: int, last: int, more: int
) -> None:
    runs = TokenRuns.even(values, each)
    copied = TokenRuns(runs)
    runs.extend(last, more)
    plain = [value for value in values for _ in range(each)]
    assert list(copied) == plain
    plain += [last] * more
    assert list(runs) == plain
    assert runs.keys(len(plain) // each, each) == TokenRuns(plain).keys(len(plain) // each, each)
