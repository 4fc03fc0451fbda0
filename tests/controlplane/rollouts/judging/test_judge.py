"""The judge's statistics on seeded traffic, and the corners of its counting."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from controlplane.contract.bodies.rollouts import RolloutCreate, Verdict
from controlplane.contract.bodies.slo import Limit
from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.evidence_of_metric import QUICK, STEADY, Window
from controlplane.rollouts.judging.judge import Control, Judge
from controlplane.rollouts.judging.judging_plan import plan_of
from controlplane.rollouts.judging.served import Outcomes
from tests.soak import soak

MakeSketch = Callable[..., Sketch]


def judge_of(metrics: list[str], *, alpha: float, tolerance: float, control: Control, quick: bool = False) -> Judge:
    plan = plan_of(RolloutCreate(pool="p", revision=1, metrics=metrics, alpha=alpha, tolerance=tolerance))
    assert plan is not None
    return Judge.start(plan, control=control, quick=quick)


class Traffic:
    """Lognormal latencies in two prompt buckets, with a load factor common to both arms."""

    def __init__(self, make: MakeSketch, seed: int, *, noise: float = 0.05) -> None:
        self.make, self.rng, self.noise, self.level = make, np.random.default_rng(seed), noise, 0.0

    def sketch(self, requests: float, scale: float, factor: float, tail: float = 1.0) -> Sketch:
        z = self.rng.normal(size=self.rng.poisson(requests))
        values = scale * factor * np.exp(0.6 * z + self.level)
        values[z > 1.645] *= tail
        return self.make(values)

    def window(self, requests: float, factor: float = 1.0, tail: float = 1.0) -> Window:
        self.level = 0.92 * self.level + self.rng.normal() * self.noise * 0.39
        buckets = (("<=128", 0.1), ("<=2k", 0.6))
        return Window(
            {bucket: self.sketch(requests / 2, scale, 1.0) for bucket, scale in buckets},
            {bucket: self.sketch(requests / 2, scale, factor, tail) for bucket, scale in buckets},
        )


def run(
    make: MakeSketch,
    seed: int,
    *,
    factor: float = 1.0,
    tail: float = 1.0,
    requests: float = 15.0,
    history: int = 60,
    ticks: int = 240,
    tolerance: float = 0.05,
    alpha: float = 0.01,
) -> tuple[Judge, int]:
    """The judge after its first verdict or all ticks, and how many ticks that took."""
    traffic = Traffic(make, seed)
    judge = judge_of(["ttft"], alpha=alpha, tolerance=tolerance, control="concurrent")
    judge.rehearse({"ttft": [traffic.window(requests) for _ in range(history)]})
    for tick in range(1, ticks + 1):
        judge.feed({"ttft": traffic.window(requests, factor, tail)})
        if judge.verdict() is not None:
            return judge, tick
    return judge, ticks


@pytest.mark.slow
@pytest.mark.soak
def test_equal_canaries_are_hardly_ever_called_worse_or_better(make_sketch: MakeSketch) -> None:
    # At alpha 0.1 the bounds of both claims hold with room to spare: of these seeds none is called either.
    said = [run(make_sketch, seed, alpha=0.1, tolerance=0.0, ticks=90)[0].verdict() for seed in range(soak(10, 40))]
    assert Verdict.WORSE not in said and Verdict.BETTER not in said


@pytest.mark.slow
@pytest.mark.soak
def test_a_slowdown_within_the_tolerance_is_not_called_worse(make_sketch: MakeSketch) -> None:
    seeds = range(soak(5, 20))
    said = [run(make_sketch, seed, alpha=0.1, factor=1.1, tolerance=0.1, ticks=120)[0].verdict() for seed in seeds]
    assert Verdict.WORSE not in said


@pytest.mark.slow
@pytest.mark.soak
def test_a_slowdown_at_the_tolerance_is_hardly_ever_called_not_worse(make_sketch: MakeSketch) -> None:
    seeds = range(soak(5, 20))
    said = [run(make_sketch, seed, alpha=0.1, factor=1.2, tolerance=0.2, ticks=120)[0].verdict() for seed in seeds]
    assert Verdict.NOT_WORSE not in said


@pytest.mark.parametrize(("factor", "tail", "within"), [(1.5, 1.0, 30), (1.0, 3.0, 90), (3.0, 1.0, 6)])
def test_slower_canaries_are_caught_soon(make_sketch: MakeSketch, factor: float, tail: float, within: int) -> None:
    for seed in range(5):
        judge, ticks = run(make_sketch, seed, factor=factor, tail=tail)
        assert judge.verdict() is Verdict.WORSE
        assert ticks <= within


def test_a_five_times_faster_canary_is_better_at_once_with_little_history(make_sketch: MakeSketch) -> None:
    for seed in range(5):
        judge, ticks = run(make_sketch, seed, factor=0.2, history=12)
        assert judge.verdict() is Verdict.BETTER
        assert ticks <= 8


def test_an_equal_canary_is_not_worse_at_a_realistic_tolerance(make_sketch: MakeSketch) -> None:
    for seed in range(5):
        judge, ticks = run(make_sketch, seed, tolerance=0.25)
        assert judge.verdict() is Verdict.NOT_WORSE
        assert ticks * 15 <= 2400  # Requests of each arm.


def after_overload(
    make: MakeSketch, seed: int, *, factor: float, alpha: float, quick: bool, ticks: int
) -> tuple[Judge, int]:
    """Half a minute of history in which everything takes twenty times as long as when it is judged."""
    traffic = Traffic(make, seed)
    judge = judge_of(["ttft"], alpha=alpha, tolerance=0.1, control="concurrent", quick=quick)
    traffic.level = math.log(20.0)
    judge.rehearse({"ttft": [traffic.window(15) for _ in range(6)]})
    traffic.level = 0.0
    for tick in range(1, ticks + 1):
        judge.feed({"ttft": traffic.window(15, factor)})
        if judge.verdict() is not None:
            return judge, tick
    return judge, ticks


@pytest.mark.parametrize(("quick", "within"), [(True, 12), (False, 40)])
def test_edges_follow_a_control_that_has_calmed_down(make_sketch: MakeSketch, quick: bool, within: int) -> None:
    """At the edges of the overload nothing of either arm would lie above any more, and nothing be shown, ever."""
    for seed in range(5):
        judge, ticks = after_overload(make_sketch, seed, factor=0.2, alpha=0.01, quick=quick, ticks=60)
        assert judge.verdict() in {Verdict.BETTER, Verdict.NOT_WORSE}
        assert ticks <= within


@pytest.mark.slow
@pytest.mark.soak
def test_equal_arms_that_calm_down_are_hardly_ever_told_apart(make_sketch: MakeSketch) -> None:
    said = [
        after_overload(make_sketch, seed, factor=1.0, alpha=0.1, quick=True, ticks=60)[0].verdict()
        for seed in range(soak(10, 40))
    ]
    assert Verdict.WORSE not in said and Verdict.BETTER not in said


def test_correlated_requests_are_tempered(make_sketch: MakeSketch) -> None:
    rng = np.random.default_rng(3)

    def arm() -> dict[str, Sketch]:
        # Thirty tokens of a request share its speed.
        return {"": make_sketch(0.02 * np.exp(0.4 * np.repeat(rng.normal(size=15), 30)))}

    judge = judge_of(["itl"], alpha=0.01, tolerance=0.05, control="concurrent")
    judge.rehearse({"itl": [Window(arm(), arm()) for _ in range(100)]})
    assert 25 < judge.streams["itl"].levels[0].dispersion.phi < 60  # Thirty of a kind; 20 is what it begins with.
    for _ in range(100):
        judge.feed({"itl": Window(arm(), arm())})
    assert judge.verdict() is not Verdict.WORSE


def test_one_metric_that_leans_worse_holds_back_a_good_verdict(make_sketch: MakeSketch) -> None:
    traffic = Traffic(make_sketch, 1)
    judge = judge_of(["ttft", "e2e"], alpha=0.01, tolerance=0.05, control="concurrent")
    judge.rehearse({metric: [traffic.window(15) for _ in range(60)] for metric in ("ttft", "e2e")})
    said = set()
    for _ in range(120):
        judge.feed({"ttft": traffic.window(15, 0.3), "e2e": traffic.window(15, 1.4)})
        said.add(judge.verdict())
        if Verdict.WORSE in said:
            break
    assert Verdict.WORSE in said
    assert judge.evidence()["metrics"]["ttft"]["finding"] == "faster"


def test_more_errors_are_worse(make_sketch: MakeSketch) -> None:
    traffic = Traffic(make_sketch, 1)
    judge = judge_of(["ttft"], alpha=0.01, tolerance=0.05, control="concurrent")
    for _ in range(6):
        judge.feed({"ttft": traffic.window(15)}, Outcomes(15, 0, 15, 5))
    assert judge.verdict() is Verdict.WORSE
    assert judge.evidence()["served"]["canary"] == {"offered": 90, "lost": 30, "share": 0.666667, "reasons": {}}


@pytest.mark.parametrize("silent", ["control", "canary", "both"])
def test_a_silent_arm_proves_nothing(make_sketch: MakeSketch, silent: str) -> None:
    traffic = Traffic(make_sketch, 1)
    judge = judge_of(["ttft"], alpha=0.01, tolerance=0.05, control="concurrent")
    judge.rehearse({"ttft": [traffic.window(15) for _ in range(20)]})
    for _ in range(100):
        window = traffic.window(15)
        if silent in ("control", "both"):
            window.control = {}
        if silent in ("canary", "both"):
            window.canary = {}
        judge.feed({"ttft": window}, Outcomes())
    assert judge.verdict() is None
    account = judge.evidence()["metrics"]["ttft"]
    assert account["judged"] == {"control": 0, "canary": 0}
    assert account["log_e"]["worse"] == pytest.approx(0.0)


def test_no_history_at_all_is_learned_from_the_first_windows_which_are_not_judged(make_sketch: MakeSketch) -> None:
    traffic = Traffic(make_sketch, 1)
    judge = judge_of(["ttft"], alpha=0.01, tolerance=0.05, control="concurrent")
    judge.rehearse({"ttft": []})
    judge.feed({"ttft": traffic.window(200)})
    assert judge.streams["ttft"].totals().n_a == 0
    for _ in range(40):
        judge.feed({"ttft": traffic.window(15, 2.0)})
    assert judge.verdict() is Verdict.WORSE


def test_a_canary_beyond_the_axis_and_all_zero_values_are_counted(make_sketch: MakeSketch) -> None:
    judge = judge_of(["ttft"], alpha=0.01, tolerance=0.05, control="concurrent")
    zeros = Sketch(zero_count=60, minimum=0.0, maximum=0.0)
    judge.rehearse({"ttft": [Window({"": zeros}, {"": zeros})]})
    for _ in range(5):
        judge.feed({"ttft": Window({"": zeros}, {"": make_sketch(np.full(60, 5000.0))})})
    assert judge.verdict() is Verdict.WORSE
    assert judge.evidence()["metrics"]["ttft"]["control"]["p99"] == 0.0


def test_a_restart_between_all_ticks_changes_nothing(make_sketch: MakeSketch) -> None:
    straight, _ = run(make_sketch, 7, ticks=40)
    traffic = Traffic(make_sketch, 7)
    judge = judge_of(["ttft"], alpha=0.01, tolerance=0.05, control="concurrent")
    judge.rehearse({"ttft": [traffic.window(15) for _ in range(60)]})
    for _ in range(40):
        judge = Judge.model_validate_json(judge.model_dump_json())
        judge.feed({"ttft": traffic.window(15)})
    assert judge.evidence() == straight.evidence()


def test_before_uses_each_window_of_the_past_once(make_sketch: MakeSketch) -> None:
    traffic = Traffic(make_sketch, 1)
    judge = judge_of(["ttft"], alpha=0.01, tolerance=0.05, control="before")
    judge.rehearse({"ttft": [Window(traffic.window(15).control) for _ in range(40)]})
    for tick in range(60):
        judge.feed({"ttft": Window({}, traffic.window(15).canary)})
        assert len(judge.streams["ttft"].past) == max(0, 39 - tick)
    assert judge.verdict() is None


def test_evidence_has_no_number_that_json_cannot_hold(make_sketch: MakeSketch) -> None:
    judge, _ = run(make_sketch, 1, factor=5.0)

    def walk(value: Any) -> None:
        if isinstance(value, Mapping):
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)
        else:
            assert not isinstance(value, float) or math.isfinite(value)

    walk(judge.evidence())
    walk(judge.model_dump(mode="json"))


# -- what it accounts for --------------------------------------------------------------------------------------------


def test_the_bounds_share_alpha_among_all_that_is_watched() -> None:
    judge = judge_of(["ttft", "e2e"], alpha=0.01, tolerance=0.05, control="concurrent")
    bounds = judge.evidence()["log_bounds"]
    assert bounds["worse"] == bounds["faster"] == pytest.approx(math.log(300)), "two metrics, and the share served"
    assert bounds["not_worse"] == pytest.approx(math.log(100)), "each must be shown: nothing to share"


def test_the_evidence_says_what_was_found_and_in_how_many_windows(make_sketch: MakeSketch) -> None:
    judge, ticks = run(make_sketch, 1, tolerance=0.25)
    evidence = judge.evidence()
    assert evidence["windows"] == ticks
    assert (evidence["control"], evidence["alpha"], evidence["tolerance"]) == ("concurrent", 0.01, 0.25)
    assert evidence["metrics"]["ttft"]["finding"] == "not_worse"
    slower, _ = run(make_sketch, 1, factor=1.5)
    assert slower.evidence()["metrics"]["ttft"]["finding"] == "worse"
    untouched = judge_of(["ttft"], alpha=0.01, tolerance=0.05, control="concurrent").evidence()
    assert (untouched["windows"], untouched["metrics"]["ttft"]["finding"]) == (0, "undecided")


def test_evidence_of_harm_shows_before_it_suffices(make_sketch: MakeSketch) -> None:
    traffic = Traffic(make_sketch, 1)
    judge = judge_of(["ttft"], alpha=0.01, tolerance=0.05, control="concurrent")
    judge.rehearse({"ttft": [traffic.window(15) for _ in range(60)]})
    said = []
    while judge.verdict() is None:
        judge.feed({"ttft": traffic.window(15, 1.4)})
        said.append(judge.evidence()["metrics"]["ttft"]["finding"])
    assert list(dict.fromkeys(said)) == ["undecided", "leaning_worse", "worse"]


def test_half_of_the_history_beside_the_other_teaches_how_a_lone_node_scatters(make_sketch: MakeSketch) -> None:
    usual, slower = make_sketch(np.geomspace(0.1, 1.0, 30)), make_sketch(np.geomspace(0.5, 5.0, 30))
    found = []
    for history in ([usual] * 12, [usual] * 6 + [slower] * 6, ([usual] * 3 + [slower] * 3) * 2):
        judge = judge_of(["ttft"], alpha=0.01, tolerance=0.05, control="before")
        judge.rehearse({"ttft": [Window({"": one}) for one in history]})
        found.append(judge.streams["ttft"].levels[0].dispersion.phi)
    assert found[0] < 1.5 < 5.0 < found[1], "six pairs: of equal windows, and of windows that differ"
    assert found[2] < 1.5, "the second half as the first"


def test_bursts_of_losses_before_the_canary_are_no_harm_in_it() -> None:
    windows = [Outcomes(40, 0, 40, 0), Outcomes(40, 12, 40, 0), Outcomes(40, 0, 40, 12), Outcomes(40, 0, 40, 0)]
    said = []
    for history in ([], windows * 15):
        judge = judge_of(["ttft"], alpha=0.01, tolerance=0.05, control="concurrent")
        judge.rehearse({}, history)
        judge.feed({}, Outcomes(40, 1, 40, 12))
        judge.feed({}, Outcomes(40, 1, 40, 12))
        said.append(judge.verdict())
    assert said == [Verdict.WORSE, None]


@pytest.mark.parametrize(("canary_s", "verdict"), [(0.6, Verdict.WORSE), (0.3, None)])
def test_a_limit_that_the_canary_alone_breaks_is_harm(
    make_sketch: MakeSketch, canary_s: float, verdict: Verdict | None
) -> None:
    limit = Limit(metric="e2e", q=0.9, limit_s=0.5)
    plan = plan_of(RolloutCreate(pool="p", revision=1, metrics=["ttft"], limits=[limit], alpha=0.01))
    assert plan is not None
    judge = Judge.start(plan, control="concurrent")
    assert judge.metrics == ["ttft", "e2e"]
    assert judge.bound == pytest.approx(math.log(300)), "a metric, a limit, and the share served"

    def window(seconds: float) -> Window:
        return Window({"": make_sketch(np.full(20, 0.3))}, {"": make_sketch(np.full(20, seconds))})

    judge.rehearse({"e2e": [window(0.3) for _ in range(10)]})
    for _ in range(10):
        judge.feed({"e2e": window(canary_s)})
    assert judge.verdict() is verdict
    (account,) = judge.evidence()["limits"]
    assert account["canary"] == {"count": 200, "above": 200 if verdict else 0}


def test_a_limit_learns_from_before_how_an_arm_breaks_it_for_whole_windows(make_sketch: MakeSketch) -> None:
    limit = Limit(metric="e2e", q=0.9, limit_s=0.5)
    plan = plan_of(RolloutCreate(pool="p", revision=1, metrics=["ttft"], limits=[limit]))
    assert plan is not None
    judge = Judge.start(plan, control="concurrent")
    dispersion = judge.limits[0].stream.levels[0].dispersion
    unknown = dispersion.phi
    slow, quick = (make_sketch(np.full(20, seconds)) for seconds in (0.6, 0.3))
    judge.rehearse({"e2e": [Window({"": quick}, {"": slow}), Window({"": slow}, {"": quick})] * 20})
    assert dispersion.phi > 2.0 * unknown


def test_tokens_of_deliveries_are_known_from_before_the_canary(make_sketch: MakeSketch) -> None:
    judge = judge_of(["itl"], alpha=0.01, tolerance=0.05, control="concurrent")
    gaps = {"": make_sketch(np.full(60, 0.02))}
    judge.rehearse({"itl": [Window(gaps, gaps, 80, 80)]})
    judge.feed({"itl": Window({}, gaps, 0, 100)})
    told = judge.evidence()["metrics"]["itl"]["tokens_per_delivery"]
    assert told == {"control": 1.3333, "canary": 1.6667}


def test_where_nobody_says_it_is_in_no_hurry() -> None:
    limit = Limit(metric="e2e", q=0.9, limit_s=0.5)
    plan = plan_of(RolloutCreate(pool="p", revision=1, metrics=["ttft"], limits=[limit]))
    assert plan is not None
    for judge, pace in (
        (Judge.start(plan, control="before"), STEADY),
        (Judge.start(plan, control="before", quick=True), QUICK),
    ):
        assert judge.streams["ttft"].pace == judge.limits[0].stream.pace == pace
        assert (judge.harm_part, judge.fading_ticks) == (1.0, 0.0), "judged once, and started by nobody"


def test_a_judge_that_was_stored_without_them_is_judged_once_and_waits_for_no_start() -> None:
    judge = judge_of(["ttft"], alpha=0.01, tolerance=0.05, control="concurrent")
    stored = judge.model_dump(mode="json", exclude={"harm_part", "fading_ticks", "comparisons", "room", "ticks"})
    assert Judge.model_validate(stored) == judge


def test_what_nobody_has_seen_is_taken_to_scatter_by_half_more_and_gaps_by_twenty_times() -> None:
    judge = judge_of(["ttft", "itl"], alpha=0.01, tolerance=0.05, control="concurrent")
    told = judge.evidence()["metrics"]
    assert {metric: {one["phi"] for one in told[metric]["exceedances"]} for metric in told} == {
        "ttft": {1.5},
        "itl": {20.0},
    }


def test_edges_come_from_the_canary_s_nodes_where_the_others_had_no_traffic(make_sketch: MakeSketch) -> None:
    traffic, found = Traffic(make_sketch, 1), []
    for quiet in ("control", "canary"):
        judge = judge_of(["ttft"], alpha=0.01, tolerance=0.05, control="concurrent")
        windows = [traffic.window(15) for _ in range(20)]
        judge.rehearse({"ttft": [Window(**{quiet: {}, **_other(window, quiet)}) for window in windows]})
        judge.feed({"ttft": traffic.window(60)})
        found.append(judge.streams["ttft"].totals().n_b > 0)
    assert found == [True, True], "the first window is judged already"


def _other(window: Window, quiet: str) -> dict[str, dict[str, Sketch]]:
    return {"control": window.control} if quiet == "canary" else {"canary": window.canary}


def test_the_accuracy_of_wide_buckets_is_told_to_four_digits() -> None:
    judge = judge_of(["ttft"], alpha=0.01, tolerance=0.05, control="concurrent")
    assert "accuracy" not in judge.evidence()["metrics"]["ttft"]
    judge.streams["ttft"].canary.relative_error = 0.123456
    told = judge.evidence()["metrics"]["ttft"]["accuracy"]
    assert told["relative_error"] == 0.1235 and "cannot show that the canary is not worse" in told["statement"]
