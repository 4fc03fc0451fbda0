"""A fleet's reports are spread over the interval, each node's always at the same place."""

import pytest

from agents.agent.reports.phase import JUDGED_AFTER_S, SLACK_S, phase_s

NODES = [f"gpu-{number}" for number in range(2000)]


@pytest.mark.parametrize(("interval_s", "window_s", "spread_s"), [(5, 5, 5), (0.5, 5, 0.5), (10, 5, 4), (10, 10, 9)])
def test_nodes_are_spread_evenly_as_far_as_judges_allow(interval_s: float, window_s: float, spread_s: float) -> None:
    phases = [phase_s(node, interval_s, window_s) for node in NODES]
    assert min(phases) >= 0 and max(phases) < spread_s
    for part in range(10):
        here = sum(part * spread_s <= 10 * phase < (part + 1) * spread_s for phase in phases)
        assert 140 <= here <= 260  # 200 wanted; a share of a tenth has a deviation of 13.
    # The oldest window of a report is as old as the interval leaves it, plus the wait.
    assert max(phases) + max(interval_s - window_s, 0) + SLACK_S <= JUDGED_AFTER_S


def test_a_node_keeps_its_place() -> None:
    assert phase_s("gpu-1", 5, 5) == phase_s("gpu-1", 5, 5) != phase_s("gpu-2", 5, 5)
    assert phase_s("gpu-1", 5, 5) == pytest.approx(10 * phase_s("gpu-1", 0.5, 5))


def test_an_interval_that_is_too_long_for_judges_is_spread_over_all_the_same() -> None:
    assert max(phase_s(node, 60, 5) for node in NODES) > 55
