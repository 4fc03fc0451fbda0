"""A request is good that was answered within every limit."""

from typing import Any

import pytest

from controlplane.contract.bodies.slo import Limit
from tuner.replay.completion import RequestTiming
from tuner.replay.goodput import is_good
from tuner.replay.replay import ReplayResult

TTFT, ITL = Limit(metric="ttft", q=0.95, limit_s=0.2), Limit(metric="itl", q=0.9, limit_s=0.05)


def _timing(index: int = 0, **other: Any) -> RequestTiming:
    usual: dict[str, Any] = {"ttft_s": 0.1, "gaps_s": [0.01] * 10, "e2e_s": 0.2, "output_tokens": 11}
    return RequestTiming(index, float(index), **(usual | other))


@pytest.mark.parametrize(
    ("timing", "good"),
    [
        (_timing(), True),
        (_timing(ttft_s=0.2), True),
        (_timing(ttft_s=0.3), False),
        (_timing(gaps_s=[0.01] * 19 + [1.0]), True),  # One gap in twenty, and nine of ten are asked for.
        (_timing(gaps_s=[0.01] * 8 + [1.0] * 2), False),
        (_timing(gaps_s=[], output_tokens=1), True),
        (_timing(error="429"), False),
        (_timing(cut=True), False),
        (_timing(ttft_s=None, cut=True, e2e_s=0.1), False),
    ],
)
def test_every_limit_counts_by_the_requests_own_values(timing: RequestTiming, good: bool) -> None:
    assert is_good(timing, [TTFT, ITL]) is good


def test_goodput_is_by_the_time_in_which_requests_came() -> None:
    result = ReplayResult([_timing(place, ttft_s=0.1 if place % 2 else 0.5) for place in range(11)], 40.0, 0.0)
    told = result.measurement(good_by=[TTFT])
    assert (told.good, told.span_s, told.good_s) == (5, 10.0, 2.0)
    assert result.measurement().good is None and result.measurement().good_s is None
    at_once = ReplayResult([_timing(), _timing()], 4.0, 0.0).measurement(good_by=[TTFT])
    assert at_once.good_s == 2.0, "where all came at once, by how long it took"
