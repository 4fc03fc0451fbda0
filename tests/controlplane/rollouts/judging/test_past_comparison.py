"""A node compared with itself: what it was before is no harm and no gain, and what it became is told."""

import json
import math
from collections.abc import Callable

import numpy as np
import pytest

from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.compared_line import FACTORS, LEAST_TICKS
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.past_comparison import Comparison
from controlplane.rollouts.judging.score_sums import TAIL
from tests.controlplane.rollouts.judging.made_arms import ALPHA, PAST_TICKS, WANTED, Arms

MakeSketch = Callable[..., Sketch]
TOLERANT = WANTED.model_copy(update={"tolerance": 0.25})
"""Of half an hour of past nobody knows how a node drifts in ten: a tenth is too little to be shown."""


def fed(found: Comparison, windows: list[Window]) -> Comparison:
    for window in windows:
        found.feed(window)
    found.settle(ALPHA)
    return found


@pytest.mark.parametrize("node", [1.0, 0.85, 1.2])
def test_a_node_that_was_always_like_that_is_not_worse_and_not_better(make_sketch: MakeSketch, node: float) -> None:
    arms = Arms(make_sketch, node=node)
    found = fed(arms.learnt(TOLERANT), [arms.window() for _ in range(120)])
    assert found.is_not_worse and not found.is_worse and not found.is_faster
    ratio = found.evidence(ALPHA)["lines"]["typical"]
    assert ratio["interval"][0] < 1.0 < ratio["interval"][1] < 1.2
    assert ratio["ratio"] == pytest.approx(1.0, abs=0.03)


def test_a_slowdown_that_a_faster_node_would_hide_is_worse(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch, node=0.8)
    found = fed(arms.learnt(), [arms.window(1.25) for _ in range(60)])
    assert found.is_worse and not found.is_not_worse
    line = found.evidence(ALPHA)["lines"]["typical"]
    assert line["ratio"] == pytest.approx(1.25, abs=0.04)
    assert line["interval"][0] > 1.1, "in spite of a canary that is not slower than the control"


def test_a_slowdown_little_beyond_what_is_tolerated_is_worse_once_enough_is_known(make_sketch: MakeSketch) -> None:
    line = Arms(make_sketch).learnt().lines["typical"]
    line.estimate, line.information = float(np.interp(1.15, FACTORS, line.by_factor)), 9000.0
    assert line.log_worse > -math.log(line.alpha)
    line.estimate = line.tolerated
    assert line.log_worse < 0.0


def test_a_canary_that_became_faster_is_told_so(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch, node=1.3)
    found = fed(arms.learnt(), [arms.window(0.7) for _ in range(40)])
    assert found.is_faster and found.is_not_worse and not found.is_worse
    assert found.evidence(ALPHA)["finding"] == "faster"


def test_other_hits_are_other_strata_and_no_harm(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch)
    found = fed(arms.learnt(), [arms.window(hits=0.1) for _ in range(120)])
    assert not found.is_worse and not found.leaning()


def test_long_prompts_alone_are_named_by_their_bucket(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch)
    found = fed(arms.learnt(), [arms.window(long=1.5) for _ in range(30)])
    assert found.is_worse
    assert found.lines["<=2k"].log_worse > found.lines["<=128"].log_worse + 5.0


def test_a_tail_alone_shows_in_the_tail(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch)
    found = fed(arms.learnt(), [arms.window(tail=3.0) for _ in range(60)])
    assert found.is_worse
    assert found.lines[TAIL].log_worse > found.lines["typical"].log_worse


def test_where_the_control_itself_is_far_from_what_was_usual_tails_are_not_compared(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch)
    found = arms.learnt()
    everywhere = [Window(arms.arm(80, 1.72), arms.arm(20, 1.72 * 1.05)) for _ in range(60)]
    fed(found, everywhere)
    assert not found.is_worse
    assert {name for name, line in found.lines.items() if not line.information} == {TAIL, "p99"}


def test_a_young_past_and_a_thin_one_are_not_compared_with(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch)
    young = [arms.window() for _ in range(LEAST_TICKS - 1)]
    assert Comparison.of(young, WANTED) is None
    assert Comparison.of([*young, arms.window()], WANTED) is not None
    assert Comparison.of([Window() for _ in range(PAST_TICKS)], WANTED) is None
    alone = [Window(arms.arm(80, 1.0), {}) for _ in range(PAST_TICKS)]
    assert Comparison.of(alone, WANTED) is None, "nothing is known of the canary"


def test_strata_without_a_past_are_counted_and_not_judged(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch)
    found = arms.learnt()
    strange = Window({">32k miss": make_sketch(np.full(30, 0.1))}, {">32k miss": make_sketch(np.full(30, 9.0))})
    fed(found, [strange] * 30)
    assert not found.is_worse and found.evidence(ALPHA)["without_a_past"] == 1800


def test_without_a_control_it_is_held_against_its_own_history(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch)
    wanted = WANTED.model_copy(update={"concurrent": False})
    past = [Window({}, arms.arm(40, 1.0)) for _ in range(PAST_TICKS)]
    found = Comparison.of(past, wanted)
    assert found is not None
    fed(found, [Window({}, arms.arm(40, 1.5)) for _ in range(40)])
    assert found.is_worse and found.evidence(ALPHA)["by"] == "its own history"


@pytest.mark.slow
def test_a_slow_start_is_waited_for_after_a_restart(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch)
    wanted = WANTED.model_copy(update={"fading_ticks": 6.0})
    start = [arms.window(1.0 + 0.8 * max(0.0, 1.0 - tick / 12)) for tick in range(60)]
    assert not fed(arms.learnt(wanted), start).is_worse
    assert fed(Arms(make_sketch).learnt(), start[:12]).is_worse, "of a live change it is harm"


def test_ticks_that_may_not_count_say_nothing(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch)
    found = arms.learnt()
    for _ in range(60):
        found.feed(arms.window(3.0), judged=False)
    found.settle(ALPHA)
    assert not found.is_worse and found.lines["typical"].information == 0.0
    assert found.evidence(ALPHA)["judged"]["canary"] == 60 * 20, "people see them all the same"


def test_a_restart_of_the_service_changes_nothing(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch)
    found = arms.learnt()
    again = Comparison.model_validate_json(found.model_dump_json())
    for _ in range(20):
        window = arms.window(1.1)
        found.feed(window)
        again.feed(window)
        again = Comparison.model_validate_json(again.model_dump_json())
    found.settle(ALPHA)
    again.settle(ALPHA)
    assert again.evidence(ALPHA) == found.evidence(ALPHA)
    assert json.loads(json.dumps(found.evidence(ALPHA), allow_nan=False)) == found.evidence(ALPHA)


def test_the_time_still_needed_shrinks_to_nothing(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch)
    found = arms.learnt(TOLERANT)
    needed = [math.inf]
    for _ in range(12):
        fed(found, [arms.window() for _ in range(8)])
        needed.append(found.needed_ticks(ALPHA))
    assert needed[-1] == 0.0 and found.is_not_worse
    assert needed == sorted(needed, reverse=True)


def test_the_error_rate_is_shared_by_the_lines(make_sketch: MakeSketch) -> None:
    found = Arms(make_sketch).learnt()
    assert sum(line.alpha for line in found.lines.values()) == pytest.approx(ALPHA)
    one = WANTED.model_copy(update={"levels": [0.95], "shown": [0.95], "guarded": False})
    (line,) = Arms(make_sketch).learnt(one).lines.values()
    assert (line.name, line.alpha) == ("p95", ALPHA)


def test_how_its_interval_closed_is_kept_and_each_line_has_its_finding(make_sketch: MakeSketch) -> None:
    arms = Arms(make_sketch)
    found = arms.learnt(TOLERANT)
    for _ in range(20):
        fed(found, [arms.window() for _ in range(6)])
    told = found.evidence(ALPHA)
    moments = told["history"]["moments"]
    assert told["history"]["line"] == "typical" and [one["after_s"] for one in moments] == [
        30.0 * n for n in range(1, 21)
    ]
    last = told["lines"]["typical"]
    assert [moments[-1]["low"], moments[-1]["high"]] == last["interval"] and moments[-1]["ratio"] == last["ratio"]
    assert moments[-1]["high"] - moments[-1]["low"] < moments[2]["high"] - moments[2]["low"]
    assert told["shown"] == ["typical", "p90"] and told["needed_s"] == 0.0
    assert all(told["lines"][name]["finding"] == "not_worse" for name in told["shown"])
