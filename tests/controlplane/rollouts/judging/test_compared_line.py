"""One line of a comparison: which changes it looks for, what it says at each estimate, and what does not count."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.compared_line import FACTORS, LEAST_TICKS, Line, Wanted, learn_line
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.past_comparison import Comparison
from controlplane.rollouts.judging.score_sums import TAIL, Yardstick, scored, usual_of
from tests.controlplane.rollouts.judging.made_arms import ALPHA, WANTED, Arms

MakeSketch = Callable[..., Sketch]


def lines(make: MakeSketch, wanted: Wanted = WANTED) -> dict[str, Line]:
    return Arms(make).learnt(wanted).lines


def at(line: Line, factor: float, information: float = 20_000.0) -> Line:
    """The line where the canary has become slower by a factor."""
    score = float(np.interp(factor, FACTORS, line.by_factor))
    return line.model_copy(update={"estimate": score, "information": information})


def test_a_rise_is_told_as_a_ratio_and_as_none_where_the_line_has_none(make_sketch: MakeSketch) -> None:
    found = lines(make_sketch)
    typical = found["typical"]
    assert typical.factor(typical.tolerated) == pytest.approx(1.1, rel=1e-3)
    assert typical.factor(0.0) == pytest.approx(1.0, abs=0.01)
    assert typical.factor(typical.by_factor[0]) is None and typical.factor(typical.by_factor[-1]) is None
    assert found[TAIL].factor(0.0) is None


def test_harm_is_looked_for_from_five_percent_beyond_what_is_tolerated_and_gains_from_a_tenth(
    make_sketch: MakeSketch,
) -> None:
    found = lines(make_sketch)
    typical = found["typical"]
    harms, gains = ([typical.factor(one) for one in looked] for looked in (typical.harms, typical.gains))
    assert harms == pytest.approx([1.1 * one for one in (1.05, 1.1, 1.2, 1.35, 1.7, 2.5)], rel=0.01)
    assert gains == pytest.approx([1 / one for one in (1.1, 1.2, 1.35, 1.7, 2.5)], rel=0.01)
    assert found[TAIL].gains == [] and len(found[TAIL].harms) == 4
    assert all(harm > found[TAIL].tolerated > 0.0 for harm in found[TAIL].harms)


@pytest.mark.parametrize(
    ("factor", "worse", "not_worse", "faster"),
    [(1.3, True, False, False), (1.1, False, False, False), (1.0, False, True, False), (0.7, False, True, True)],
)
def test_what_is_shown_at_each_estimate(
    make_sketch: MakeSketch, factor: float, worse: bool, not_worse: bool, faster: bool
) -> None:
    line = at(lines(make_sketch)["typical"], factor)
    assert (line.log_worse >= -math.log(line.alpha)) == worse
    assert (line.is_not_worse(ALPHA), line.is_faster) == (not_worse, faster)
    told = line.account(ALPHA)
    assert told["finding"] == (
        "faster" if faster else "not_worse" if not_worse else "leaning_worse" if worse else "undecided"
    )
    assert told["ratio"] == pytest.approx(factor, rel=0.01) and told["interval"][0] < factor < told["interval"][1]
    assert told["worse_beyond"] == pytest.approx(1.1, rel=1e-3)
    assert told["standard_errors"] == round(line.estimate * math.sqrt(line.information), 2)
    assert line.model_copy(update={"is_worse": True}).account(ALPHA)["finding"] == "worse", "once shown it stays"


def test_a_line_leans_from_half_of_the_evidence_on_that_harm_takes(make_sketch: MakeSketch) -> None:
    line, leans = lines(make_sketch)["typical"], []
    for information in np.linspace(10.0, 4000.0, 200):
        found = at(line, 1.3, float(information))
        leans.append((found.log_worse > -0.5 * math.log(line.alpha), found.leans))
    assert {one for one, _ in leans} == {False, True} and all(one == other for one, other in leans)


def test_of_what_waits_harm_is_shown_without_its_worst_episode_and_leans_with_it(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch)
    found = arms.learnt(WANTED.model_copy(update={"episode_ticks": 10}))
    for factor in [1.0] * 20 + [4.0] * 10 + [1.0] * 20:
        found.feed(arms.window(factor))
    found.settle(ALPHA)
    line = found.lines["typical"]
    assert line.sustained is not None and line.sustained[0] < line.estimate
    assert line.factor(line.sustained[0]) == pytest.approx(1.0, abs=0.05)
    assert not line.is_worse and line.leans
    for _ in range(30):
        found.feed(arms.window(4.0))
    found.settle(ALPHA)
    assert found.lines["typical"].is_worse, "what lasts longer counts"


def test_nothing_is_left_where_there_are_no_more_ticks_than_an_episode_has(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch)
    found = arms.learnt(WANTED.model_copy(update={"episode_ticks": 10}))
    for _ in range(10):
        found.feed(arms.window(4.0))
    found.settle(ALPHA)
    assert found.lines["typical"].sustained == (0.0, 0.0) and not found.is_worse


def test_beyond_the_levels_that_are_shown_ticks_count_near_the_usual_control_alone(make_sketch: MakeSketch) -> None:
    found = lines(make_sketch)
    assert {name for name, line in found.items() if line.near is not None} == {TAIL, "p99"}
    for update in ({"concurrent": False}, {"episode_ticks": 10}):
        wanted = WANTED.model_copy(update=update)
        arms = Arms(make_sketch)
        past = [arms.window() if wanted.concurrent else Window({}, arms.arm(80, 1.0)) for _ in range(400)]
        learnt = Comparison.of(past, wanted)
        assert learnt is not None and all(line.near is None for line in learnt.lines.values())


def test_an_interval_closes_with_what_is_known_and_is_open_where_nothing_is(make_sketch: MakeSketch) -> None:
    line = lines(make_sketch)["typical"]
    nothing = at(line, 1.0, 0.0).moment(5.0)
    assert (nothing.after_s, nothing.ratio, nothing.low, nothing.high) == (5.0, None, None, None)
    some, more = (at(line, 1.2, information).moment(5.0) for information in (2_000.0, 20_000.0))
    assert some.low is not None and some.high is not None and more.low is not None and more.high is not None
    assert some.low < more.low < 1.2 < more.high < some.high


def test_a_line_wants_half_an_hour_in_which_both_arms_served(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch)
    for served, is_learnt in ((LEAST_TICKS, True), (LEAST_TICKS - 1, False)):
        windows = [arms.window() for _ in range(served)] + [Window(arms.arm(80, 1.0), {}) for _ in range(40)]
        yardstick = Yardstick(usual_of(windows), WANTED.levels)
        seen = scored(windows, yardstick)
        line = learn_line("typical", yardstick.strata, seen, yardstick, WANTED, 0.002)
        assert (line is not None) == is_learnt
        if line is not None:
            assert (line.alpha, line.strata, line.weight) == (0.002, yardstick.strata, [0.0] * len(yardstick.strata))
            assert line.spread >= 1.0 and sum(share for _, _, share in line.offsets.values()) == pytest.approx(1.0)
