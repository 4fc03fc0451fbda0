"""Prompt lookup finds the longest recent match, at a cost that does not grow."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.engine.speculation.ngram import NgramIndex


def test_proposes_what_followed_the_longest_matching_tail() -> None:
    tokens = [1, 2, 3, 4, 9, 3, 4, 5, 1, 2, 3, 4]
    assert NgramIndex().propose(tokens, 3) == [9, 3, 4]


def test_prefers_the_most_recent_of_equals() -> None:
    assert NgramIndex().propose([1, 2, 7, 1, 2, 8, 1, 2], 1) == [8]


def test_proposes_nothing_without_a_match() -> None:
    assert NgramIndex().propose([1, 2, 3], 4) == []
    assert NgramIndex().propose([1], 4) == []


def test_wants_as_many_tokens_as_it_was_told_to_agree() -> None:
    tokens = [1, 2, 3, 9, 8, 3]
    assert NgramIndex().propose(tokens, 1) == [9]
    assert NgramIndex(shortest=2).propose(tokens, 1) == []


def test_goes_on_with_its_own_proposal_at_the_end() -> None:
    assert NgramIndex().propose([4, 1, 2, 1, 2], 5) == [1, 2, 1, 2, 1]
    assert NgramIndex().propose([7, 3, 3], 4) == [3, 3, 3, 3]


def test_grows_with_its_tokens() -> None:
    index, tokens, whole = NgramIndex(), [1, 2], [1, 2, 3, 1, 2, 3, 1]
    for token in whole[2:]:
        index.propose(tokens, 2)
        tokens.append(token)
    assert index.propose(tokens, 2) == NgramIndex().propose(whole, 2) == [2, 3]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 6), st.integers(1, 3))
def test_a_proposal_followed_the_same_tokens_before(tokens: list[int], limit: int, shortest: int) -> None:
    proposal = NgramIndex(shortest, 8).propose(tokens, limit)
    tail = tokens[len(tokens) - shortest :]
    starts = [end for end in range(shortest, len(tokens)) if tokens[end - shortest : end] == tail]
    if len(tokens) <= shortest or not starts:
        assert proposal == []
    else:
        whole = tokens + proposal
        assert len(proposal) == limit
        assert any(whole[start : start + limit] == proposal for start in starts)


@pytest.mark.parametrize("length", [2_000, 20_000])
def test_a_lookup_reads_few_tokens_however_long_the_sequence(length: int) -> None:
    class Counted(list[int]):
        reads = 0

        def __getitem__(self, key):  # type: ignore[no-untyped-def,override]
            Counted.reads += 1
            return super().__getitem__(key)

    draw = random.Random(0)
    tokens, index = Counted(draw.randrange(5) for _ in range(length)), NgramIndex()
    index.propose(tokens, 4)
    tokens.append(1)
    Counted.reads = 0
    index.propose(tokens, 4)
    assert Counted.reads <= 8 * 16 * 2 + 4
