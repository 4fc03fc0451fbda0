"""Costs are learned from noisy steps."""

import pytest

from agents.engine.speculation.step_costs import StepCosts, bucket


def test_an_outlier_moves_nothing() -> None:
    costs = StepCosts()
    for seconds in (1.0, 1.0, 1.0, 1.0, 30.0, 1.0, 1.0, 1.0):
        costs.observe(1, 0, seconds)
    assert costs.seconds(1, 0) == pytest.approx(1.0, rel=0.15)


def test_between_neighbours_a_line_and_beyond_them_the_last() -> None:
    costs = StepCosts()
    costs.observe(2, 0, 1.0)
    costs.observe(2, 8, 3.0)
    assert [costs.seconds(2, drafts) for drafts in (0, 2, 4, 8, 30)] == [1.0, 1.5, 2.0, 3.0, 3.0]


def test_more_drafts_never_cost_less() -> None:
    costs = StepCosts()
    for drafts, seconds in ((0, 1.0), (1, 1.4), (2, 1.2), (3, 1.3), (4, 2.0)):
        costs.observe(1, drafts, seconds)
    learned = [costs.seconds(1, drafts) for drafts in range(5)]
    assert learned == sorted(learned) and learned[1] == pytest.approx(1.3) and learned[4] == 2.0


def test_proportions_outlast_a_change_of_pace() -> None:
    costs = StepCosts()
    for _ in range(10):
        costs.observe(1, 0, 1.0)
        costs.observe(1, 4, 1.5)
    for _ in range(40):
        costs.observe(1, 4, 4.5)  # Everything takes three times as long; steps without drafts are not seen.
    assert costs.seconds(1, 4) == pytest.approx(4.5, rel=0.1)
    assert costs.seconds(1, 4) / costs.seconds(1, 0) == pytest.approx(1.5, rel=0.15)


def test_numbers_of_requests_are_apart_and_unknown_until_seen() -> None:
    costs = StepCosts()
    costs.observe(1, 0, 1.0)
    costs.observe(8, 0, 2.0)
    assert costs.seconds(1, 0) == 1.0 and costs.seconds(8, 0) == 2.0
    assert costs.age(1) == 0 and costs.age(3) is None
    costs.observe(1, 2, 1.0)
    assert costs.age(1) == 1 and costs.age(8) == 0


def test_what_was_not_seen_for_long_is_forgotten() -> None:
    costs = StepCosts()
    costs.observe(1, 0, 1.0)
    for _ in range(2600):
        costs.observe(1, 3, 1.0)
    assert costs.age(1) is None


def test_buckets_rise_and_lie_close() -> None:
    buckets = [bucket(count) for count in range(600)]
    assert buckets == sorted(buckets) and buckets[:9] == list(range(9))
    assert all(count <= own <= count * 1.25 for count, own in enumerate(buckets))
