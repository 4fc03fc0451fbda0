"""Samples belong to the window that they cover, and wait for the next report."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.host.watch import BEFORE_END_S, KEPT, HostWatch
from controlplane.contract import metrics

FIGURES = {metrics.HOST_STEAL: 0.5}


class FixedSampler:
    def sample(self) -> dict[metrics.Metric, float]:
        return FIGURES


def watch(times: list[float], window_s: float = 5.0) -> HostWatch:
    return HostWatch(FixedSampler(), window_s, lambda: times.pop(0))  # type: ignore[arg-type]


def test_a_sample_at_a_windows_end_is_that_windows() -> None:
    made = watch([100.0 + 5.0 - BEFORE_END_S, 110.0 + 1.0])
    made.sample()
    made.sample()  # A second late: it covers most of the window that has just ended.
    assert made.take() == {20: FIGURES, 21: FIGURES}
    assert made.take() == {}


def test_wider_windows_are_told_in_their_last_part() -> None:
    made = watch([120.0 - BEFORE_END_S], window_s=10.0)
    made.sample()
    assert made.take() == {23: FIGURES}


@given(st.integers(0, 10**6), st.floats(-2.0, 2.0))
def test_a_sample_that_is_a_little_early_or_late_is_its_windows(window: int, off_s: float) -> None:
    at_s = 5.0 * (window + 1) - BEFORE_END_S + off_s
    assert watch([]).window_of(at_s) == window


def test_an_idle_engines_samples_do_not_pile_up() -> None:
    made = watch([5.0 * number for number in range(1, KEPT + 10)])
    for _ in range(KEPT + 9):
        made.sample()
    assert len(made.take()) == KEPT


def test_a_fault_of_reading_costs_a_window(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        def sample(self) -> None:
            raise OSError("no more files")

    made = HostWatch(Broken(), now=lambda: 5.0)  # type: ignore[arg-type]
    made.sample()
    assert made.take() == {} and "cannot be measured" in caplog.text
