"""Shares kept by place, and what they promise."""

import pytest

from agents.engine.speculation.acceptance import Acceptance, expected_extra


def test_a_place_counts_when_all_before_it_were_kept() -> None:
    acceptance = Acceptance(memory=0.999)
    for _ in range(50):
        acceptance.observe(3, 1)
        acceptance.observe(3, 3)
    assert acceptance.share(0) == pytest.approx(1.0, abs=0.01)
    assert acceptance.share(1) == pytest.approx(0.5, abs=0.02)
    assert acceptance.share(2) == pytest.approx(1.0, abs=0.01)
    assert acceptance.share(3, prior=0.3) == pytest.approx(0.3)


def test_it_forgets() -> None:
    acceptance = Acceptance(memory=0.9)
    for _ in range(50):
        acceptance.observe(1, 1)
    for _ in range(30):
        acceptance.observe(1, 0)
    assert acceptance.share(0) < 0.15


def test_weakened_it_follows_the_new_at_once() -> None:
    acceptance = Acceptance(memory=0.95)
    for _ in range(50):
        acceptance.observe(1, 0)
    acceptance.weaken(1.0)
    for _ in range(4):
        acceptance.observe(1, 1)
    assert acceptance.share(0) > 0.7


def test_expected_tokens_are_the_sum_of_the_reaches() -> None:
    assert expected_extra([0.5, 0.5, 1.0]) == [0.0, 0.5, 0.75, 1.0]
    assert expected_extra([]) == [0.0]
