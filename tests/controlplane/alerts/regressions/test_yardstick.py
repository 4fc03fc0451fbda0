"""A window's score is the sum of its requests' scores, bucket by bucket."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from controlplane.alerts.regressions.stacked_tails import Stack
from controlplane.alerts.regressions.yardstick import (
    LEAST_COUNT,
    LEAST_WINDOWS,
    ByTokens,
    Scored,
    Yardstick,
    yardstick,
)
from controlplane.alerts.windows.history import Window
from controlplane.alerts.windows.material import Tail
from controlplane.contract.histogram import AXIS_LENGTH, axis_position
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
    assert each["a"].variance == pytest.approx([one.variance for one in alone], abs=1e-6)


def served(seed: int, windows: int, metric: str = "prefill", longer: float = 1.0) -> list[Window]:
    """Requests that take as long as their prompts are, times chance; how long those are swings over minutes."""
    random = np.random.default_rng(seed)
    found = []
    for place in range(windows):
        prompts = np.minimum(512 * longer * (1.0 + 0.3 * np.sin(place / 12.0)) * random.uniform(1.0, 3.0, 8), 2048)
        took = 1e-4 * prompts * random.lognormal(0.0, 0.2, 8)
        places = np.array([axis_position(float(one)) for one in took])
        tails = {metric: {"a": Tail.of(Sketch(counts=np.bincount(places, minlength=AXIS_LENGTH)))}}
        found.append(Window(5.0 * place, 1.0, tails, tokens={"a": float(prompts.sum())}))
    return found


def means(known: Yardstick, windows: list[Window]) -> np.ndarray:
    each = known.score_each(Stack.of(windows, known.metric))["a"]
    assert [known.score(one)["a"].location for one in windows] == pytest.approx(list(each.location), abs=1e-6)
    return np.asarray(each.location / each.count)


def test_longer_prompts_explain_what_they_take() -> None:
    windows = served(1, 400)
    known = yardstick(Stack.of(windows, "prefill"))
    blind = [replace(one, tokens={}) for one in windows]
    plain = means(known, blind)
    left = means(known, windows)
    assert left.std() < 0.6 * plain.std()
    # Windows half as long again in their prompts are no slower; that much slower ones are.
    assert abs(means(known, served(2, 100, longer=1.3)).mean()) < 0.15
    assert means(known, [replace(one, tokens={}) for one in served(2, 100, longer=1.3)]).mean() > 0.3
    scored = known.score(windows[0])["a"]
    assert scored.variance == pytest.approx(8 * known.usual["a"].by_tokens.left) and scored.variance < 6.0
    # Without tokens a window is scored as it was, with all its variance.
    assert known.score(blind[0])["a"].variance == 8.0


@pytest.mark.parametrize(
    ("metric", "windows", "has_tokens"),
    [("itl", 400, True), ("prefill", LEAST_WINDOWS, True), ("prefill", 400, False)],
)
def test_where_tokens_explain_nothing_scores_are_as_they_are(metric: str, windows: int, has_tokens: bool) -> None:
    found = served(1, windows - 1 if windows == LEAST_WINDOWS else windows, metric)
    found = found if has_tokens else [replace(one, tokens={}) for one in found]
    known = yardstick(Stack.of(found, metric))
    assert known.usual["a"].by_tokens == ByTokens()
    assert np.array_equal(means(known, found), means(known, [replace(one, tokens={}) for one in found]))
