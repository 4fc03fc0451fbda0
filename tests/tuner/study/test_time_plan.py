"""A study's time: the finish has its part from the start, and runs as slow as they turn out."""

import pytest

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import StudyCreate
from tuner.study.heats import HEATS
from tuner.study.time_plan import CAUTION, LONGEST_SPAN_S, OVERHEAD_S, SHORTEST_SPAN_S, TimePlan


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def plan(**wanted: int) -> tuple[TimePlan, Clock]:
    clock = Clock()
    return TimePlan(StudyCreate.model_validate({"pool": "p", "max_trials": 12, **wanted}), clock=clock), clock


def test_time_passes_by_its_clock() -> None:
    found, clock = plan(max_duration_s=600)
    clock.now += 45.0
    assert (found.spent_s, found.left_s) == (45.0, 555.0)


def test_a_span_leaves_room_for_trials_heats_and_pairs() -> None:
    found, _ = plan(max_duration_s=600, finalists=3, finalist_repeats=3)
    runs = 12 + HEATS * 3 + 2 * 3
    assert runs * (found.span_s + OVERHEAD_S) == pytest.approx(600)
    alone, _ = plan(max_duration_s=600, finalists=1, finalist_repeats=3)
    assert alone.span_s > found.span_s
    assert plan(max_duration_s=10)[0].span_s == SHORTEST_SPAN_S
    assert plan(max_duration_s=600_000)[0].span_s == LONGEST_SPAN_S


def test_the_replays_of_a_trial_share_its_time() -> None:
    wanted = {"max_duration_s": 3000, "finalists": 1, "finalist_repeats": 3}
    limits = [Limit(metric="ttft", q=0.95, limit_s=1)]
    spec = StudyCreate.model_validate(
        {"pool": "p", "objective": "max_load", "constraints": limits, "load_replays": 5, **wanted}
    )
    found = TimePlan(spec, clock=Clock())
    assert 5 * (12 + 2 * 3) * (found.span_s + OVERHEAD_S) == pytest.approx(3000)
    assert found.usual_s == pytest.approx(5 * (found.span_s + OVERHEAD_S)), "before any was measured"
    assert plan(**wanted)[0].span_s > found.span_s


def test_what_is_kept_back_follows_the_runs() -> None:
    """The default took 30 s, the others 10 (the middle one): three pairs, six heats."""
    found, clock = plan(max_duration_s=600, finalists=3, finalist_repeats=3)
    found.run_s += [30.0, 9.0, 10.0, 50.0]
    assert found.usual_s == 10.0 and found.pair_s == 40.0
    assert found.reserve_s(7.0) == 6 * 10.0 + 3 * 40.0 + 7.0
    clock.now += 200.0
    assert found.affordable_pairs(40.0) == int((CAUTION * 400.0 - 40.0) / 40.0)
