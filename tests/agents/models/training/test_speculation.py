"""Counting accepted drafts on a known greedy text."""

from collections.abc import Sequence

import pytest

from agents.models.training import speculation

TEXT = list(range(100, 110))


def _oracle(context: Sequence[int], count: int) -> list[int]:
    return [context[-1] + 1 + step for step in range(count)]


def test_an_oracle_is_always_accepted() -> None:
    counts = speculation.replay([99], TEXT, _oracle, 4)
    assert (counts.steps, counts.proposed, counts.accepted, counts.emitted) == (2, 8, 8, 10)
    assert counts.figures()["tokens_per_step"] == 5.0


def test_drafts_after_a_wrong_one_are_refused() -> None:
    counts = speculation.replay([99], TEXT, lambda context, count: [context[-1] + 1, -1, context[-1] + 3][:count], 4)
    assert (counts.accepted, counts.steps) == (5, 5)


def test_no_proposals_emit_one_token_a_step() -> None:
    counts = speculation.replay([99], TEXT, lambda context, count: [], 4)
    assert (counts.steps, counts.proposed, counts.figures()["acceptance"]) == (10, 0, 0.0)


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ([1, 2, 3, 9, 1, 2], [3, 9]),
        ([1, 2, 3, 1, 2, 4, 1, 2], [4, 1]),  # The most recent occurrence.
        ([7, 1, 2, 5, 1, 2, 6, 7, 1, 2], [5, 1]),  # The longest suffix first.
        ([1, 2, 3], []),
    ],
)
def test_prompt_lookup(context: list[int], expected: list[int]) -> None:
    assert speculation.ngram_drafter()(context, 2) == expected


def test_repetition_is_the_share_of_sequences_seen_before() -> None:
    assert speculation.repeated_share(list(range(20))) == 0.0
    assert speculation.repeated_share([1, 2] * 20) > 0.9
