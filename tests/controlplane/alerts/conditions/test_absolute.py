"""A quantile against its limit."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.alerts.conditions.absolute import begun, reading, telling
from controlplane.alerts.conditions.finding import Reading
from controlplane.contract.bodies.slo import Limit


@pytest.mark.parametrize(
    ("value_s", "is_firing", "expected"),
    [
        (2.0, False, Reading.BREACH),
        (1.0, False, Reading.CLEAR),
        (0.95, True, Reading.HOLD),
        (0.9, True, Reading.CLEAR),
        (None, True, Reading.HOLD),
    ],
)
def test_a_firing_alert_is_called_over_below_its_limit(
    value_s: float | None, is_firing: bool, expected: Reading
) -> None:
    assert reading(value_s, Limit(metric="ttft", q=0.9, limit_s=1.0), is_firing=is_firing) is expected


@pytest.mark.parametrize(
    ("beyond", "since"),
    [
        ((-2.5, -2.5, 1.0, 3.0), 2),
        ((-2.5, 2.0, -0.5, -0.5, 3.0), 1),  # Chance: two windows in the midst hold none too many.
        ((-2.5, 1.0, -2.5, 2.0), 3),  # What was before is made up for by what was between.
        ((-2.5, 0.5, 0.0), 1),
        ((-2.5, -1.0), None),
        ((), None),
    ],
)
def test_a_breach_began_where_most_slow_requests_add_up(beyond: Sequence[float], since: int | None) -> None:
    times = [datetime(2030, 1, 1, tzinfo=UTC) + timedelta(seconds=5 * place) for place in range(len(beyond))]
    assert begun(list(zip(times, beyond, strict=True))) == (None if since is None else times[since])


@given(
    last=st.integers(0, 10**9),
    count=st.integers(1, 1500),
    window_s=st.floats(5, 86400),
    width=st.sampled_from([1, 2, 12, 60, 720]),
)
def test_each_run_of_equal_values_is_judged_at_its_first_and_last_step(
    last: int, count: int, window_s: float, width: int
) -> None:
    """A window that is kept counts at its first step, so what is looked at up to a step holds these starts."""

    def held(step: int) -> tuple[int, int]:
        first = math.ceil(step - window_s / 5.0)
        return math.ceil(first / width), math.ceil(step / width)

    judged = {last - place for place in telling(last, count, window_s, width)}
    assert last in judged
    for step in range(last - count + 2, last + 1):
        if held(step) != held(step - 1):
            assert {step - 1, step} <= judged
    assert width > 1 or len(judged) == count
