"""A window's score is the sum of its requests' scores, bucket by bucket."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from controlplane.alerts.regressions.stacked_tails import Stack
from controlplane.alerts.regressions.yardstick import LEAST_COUNT, Scored, yardstick
from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.material import Tail
from controlplane.contract.histogram import AXIS_LENGTH
from controlplane.evidence.sketch import Sketch

counts = arrays(np.int64, 30, elements=st.integers(0, 9))


def on_axis(found: np.ndarray, low: int) -> np.ndarray:
    whole = np.zeros(AXIS_LENGTH, dtype=np.int64)
    whole[low : low + found.size] = found
    return whole


def window(at_s: float, **buckets: np.ndarray) -> Window:
    return Window(at_s, 1.0, {"prefill": {name: Tail.of(Sketch(counts=found)) for name, found in buckets.items()}})


@given(counts.filter(lambda found: found.sum() >= LEAST_COUNT), counts, st.integers(0, AXIS_LENGTH - 30))
def test_the_score_is_the_sum_of_the_requests_scores(usual: np.ndarray, now: np.ndarray, low: int) -> None:
    known = yardstick(Stack.of([window(0.0, a=on_axis(usual, 400))], "prefill"))
    found = on_axis(now, low)
    scored = known.score(window(5.0, a=found))["a"]
    assert scored.count == now.sum()
    assert scored.location == pytest.approx(float(found @ known.usual["a"].location.table), abs=1e-6)
    assert scored.tail == pytest.approx(float(found @ known.usual["a"].tail.table), abs=1e-6)


def test_what_nothing_is_known_of_is_left_out() -> None:
    many, few = on_axis(np.full(10, 10), 300), on_axis(np.array([LEAST_COUNT - 1]), 300)
    known = yardstick(Stack.of([window(0.0, many=many, few=few)], "prefill"))
    assert set(known.usual) == {"many"} and known.usual["many"].share == 1.0
    assert set(known.score(window(5.0, many=many, few=few, new=many))) == {"many"}
    assert known.score(Window(5.0, 1.0, {})) == {}
    assert known.score(window(5.0, many=on_axis(np.zeros(3, dtype=np.int64), 300)))["many"] == Scored()
    assert yardstick(Stack.of([], "prefill")).usual == {}


def test_shares_are_of_the_requests_that_are_known() -> None:
    known = yardstick(
        Stack.of([window(0.0, a=on_axis(np.full(10, 30), 300), b=on_axis(np.full(10, 10), 500))], "prefill")
    )
    assert {name: one.share for name, one in known.usual.items()} == {"a": 0.75, "b": 0.25}


@given(st.lists(counts, min_size=1, max_size=6))
def test_many_windows_are_scored_as_each_is(found: list[np.ndarray]) -> None:
    known = yardstick(Stack.of([window(0.0, a=on_axis(np.arange(1, 31), 400))], "prefill"))
    windows = [window(5.0 * place, a=on_axis(one, 390), new=on_axis(one, 300)) for place, one in enumerate(found)]
    each = known.score_each(Stack.of(windows, "prefill"))
    assert set(each) == {"a"}
    alone = [known.score(one)["a"] for one in windows]
    assert list(each["a"].count) == [one.count for one in alone]
    assert each["a"].location == pytest.approx([one.location for one in alone], abs=1e-6)
    assert each["a"].tail == pytest.approx([one.tail for one in alone], abs=1e-6)
