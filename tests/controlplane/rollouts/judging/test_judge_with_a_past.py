"""A judge that knows half an hour of both arms: stages for what waits, room, lost hits, and the time still needed."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from controlplane.contract.bodies.rollouts import JudgingPlan, RolloutCreate, Verdict
from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.compared_line import EPISODE_TICKS
from controlplane.rollouts.judging.compared_line import LEAST_TICKS as PAST_TICKS
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.judge import LEAST_FADING_TICKS, LEAST_TICKS, Judge
from controlplane.rollouts.judging.judging_plan import harm_part, plan_of
from controlplane.rollouts.judging.score_sums import TAIL

MakeSketch = Callable[..., Sketch]
CONTROL, CANARY = 60, 20
SPEC = RolloutCreate(pool="p", revision=2, metrics=["ttft", "tpot"], levels={"ttft": [0.5, 0.9], "tpot": [0.5, 0.9]})


class Pool:
    """Ticks of two arms. wait: seconds that a request waits in control and canary; prefill: of the canary, how slow."""

    def __init__(self, make: MakeSketch, seed: int) -> None:
        self.make, self.random = make, np.random.default_rng(seed)

    def tick(
        self, *, wait: tuple[float, float] = (0.02, 0.02), prefill: float = 1.0, hits: float = 0.5
    ) -> dict[str, Window]:
        windows = {metric: Window() for metric in ("prefill", "queue", "ttft", "tpot")}
        for arm, count, waits, slower, share in (
            ("control", CONTROL, wait[0], 1.0, 0.5),
            ("canary", CANARY, wait[1], prefill, hits),
        ):
            for name, part, requests in (("hit", 0.3, share), ("miss", 1.0, 1.0 - share)):
                size = round(count * requests)
                took = 0.1 * part * slower * np.exp(0.3 * self.random.normal(size=size))
                waited = waits * self.random.exponential(size=size)
                per_token = 0.02 * np.exp(0.2 * self.random.normal(size=size))
                values = {"prefill": took, "queue": waited, "ttft": took + waited, "tpot": per_token}
                for metric, seen in values.items():
                    sketch = self.make(seen)
                    sketch.total = float(seen.sum())
                    getattr(windows[metric], arm)[f"<=2k {name}"] = sketch
        return windows


def plan_with(tolerance: float) -> JudgingPlan:
    plan = plan_of(SPEC.model_copy(update={"tolerance": tolerance}))
    assert plan is not None
    return plan


def learnt(make: MakeSketch, seed: int = 1, *, fading_ticks: float = 0.0) -> tuple[Judge, Pool]:
    pool = Pool(make, seed)
    judge = Judge.start(plan_with(0.25), control="concurrent", harm_part=0.5, fading_ticks=fading_ticks)
    past = [pool.tick() for _ in range(PAST_TICKS)]
    judge.rehearse({metric: [windows[metric] for windows in past] for metric in judge.reads}, gap_ticks=2.0)
    return judge, pool


@pytest.mark.slow
def test_an_equal_canary_is_not_worse_by_stages_that_do_not_wait(make_sketch: MakeSketch) -> None:
    judge, pool = learnt(make_sketch)
    assert set(judge.comparisons) == {"ttft", "tpot", "prefill"} and not judge.streams
    needed = []
    for _ in range(24):
        for _ in range(5):
            judge.feed(pool.tick())
        judge.look()
        needed.append(judge.needed_s())
        judge = Judge.model_validate_json(judge.model_dump_json())
        if judge.verdict() is not None:
            break
    assert judge.verdict() is Verdict.NOT_WORSE
    assert needed[-1] == 0.0
    episodes = {name: one.wanted.episode_ticks for name, one in judge.comparisons.items()}
    assert episodes == {"ttft": EPISODE_TICKS, "tpot": 0, "prefill": 0}, "nothing waits in the others"
    assert judge.comparisons["ttft"].wanted.shown == [] and judge.comparisons["prefill"].wanted.shown == [0.5, 0.9]
    evidence = judge.evidence()
    assert evidence["held_back"] == [] and (evidence["alpha"], evidence["alpha_for_harm"]) == (0.01, 0.005)
    assert {"control", "canary", "finding", "lines"} <= evidence["metrics"]["prefill"].keys()


@pytest.mark.slow
def test_a_past_tells_how_far_hits_are_apart_and_compares_no_gaps_and_nothing_in_wide_buckets(
    make_sketch: MakeSketch,
) -> None:
    pool = Pool(make_sketch, 3)
    past = [pool.tick(hits=0.75) for _ in range(PAST_TICKS)]
    history = {metric: [windows[metric] for windows in past] for metric in ("prefill", "queue", "ttft", "tpot")}
    history["itl"] = history["tpot"]
    for window in history["ttft"]:
        for sketch in (*window.control.values(), *window.canary.values()):
            sketch.relative_error = 0.5
    spec = SPEC.model_copy(update={"metrics": ["ttft", "tpot", "itl"], "levels": {}})
    plan = plan_of(spec)
    assert plan is not None
    judge = Judge.start(plan, control="concurrent")
    judge.rehearse(history)
    assert judge.room.tells_hits and judge.room.hits_apart == pytest.approx(0.25)
    assert "tpot" in judge.comparisons and not {"ttft", "itl"} & judge.comparisons.keys()
    assert {"ttft", "itl"} <= judge.streams.keys()


@pytest.mark.slow
def test_two_overloaded_arms_are_said_to_be_and_not_judged_by_waiting(make_sketch: MakeSketch) -> None:
    judge, pool = learnt(make_sketch)
    for tick in range(120):
        judge.feed(pool.tick(wait=(2.0 + 0.1 * tick, 2.0 + 0.02 * tick)))
    judge.look()
    assert judge.verdict() is None
    assert judge.evidence()["held_back"] == ["both arms are overloaded: what waits says nothing of the configuration"]
    assert judge.comparisons["ttft"].lines["typical"].information == 0.0


@pytest.mark.slow
def test_waiting_on_the_canary_alone_is_harm_once_it_is_more_than_an_episode(make_sketch: MakeSketch) -> None:
    judge, pool = learnt(make_sketch)
    said = []
    for _ in range(EPISODE_TICKS + 12):
        judge.feed(pool.tick(wait=(0.02, 2.0)))
        judge.look()
        assert judge.comparisons["ttft"].is_worse or len(said) < 3 or not judge.harmless, "it leans meanwhile"
        judge = Judge.model_validate_json(judge.model_dump_json())
        said.append(judge.verdict())
    assert set(said[:EPISODE_TICKS]) == {None} and said[-1] is Verdict.WORSE
    assert judge.comparisons["ttft"].is_worse and not judge.comparisons["prefill"].is_worse


@pytest.mark.slow
def test_a_queue_that_built_up_once_is_no_harm_and_holds_a_good_verdict_back(make_sketch: MakeSketch) -> None:
    judge, pool = learnt(make_sketch)
    for _ in range(EPISODE_TICKS // 2):
        judge.feed(pool.tick(wait=(0.02, 2.0)))
    judge.look()
    assert not judge.harmless and judge.verdict() is None
    for look in range(10):
        for _ in range(12):
            judge.feed(pool.tick())
        judge.look()
        assert not judge.comparisons["ttft"].is_worse, look
    assert judge.verdict() is not Verdict.WORSE


@pytest.mark.slow
def test_lost_cache_hits_are_no_harm_and_hold_a_good_verdict_back(make_sketch: MakeSketch) -> None:
    judge, pool = learnt(make_sketch)
    for _ in range(120):
        judge.feed(pool.tick(hits=0.2))
    judge.look()
    assert judge.verdict() is None and judge.harmless
    (why,) = judge.held_back()
    assert "lost cache hits" in why


@pytest.mark.slow
@pytest.mark.parametrize(("fading", "least"), [(0.0, LEAST_TICKS), (6.0, LEAST_FADING_TICKS)])
def test_harm_is_said_after_half_a_minute_and_after_a_restart_a_minute(
    make_sketch: MakeSketch, fading: float, least: int
) -> None:
    judge, pool = learnt(make_sketch, fading_ticks=fading)
    said = []
    for _ in range(3 * LEAST_FADING_TICKS):
        judge.feed(pool.tick(prefill=3.0))
        judge.look()
        said.append(judge.verdict())
    assert Verdict.WORSE not in said[: least - 1] and said[-1] is Verdict.WORSE
    assert fading or said[least - 1] is Verdict.WORSE


@pytest.mark.slow
def test_a_metric_that_is_silent_holds_its_place_in_time(make_sketch: MakeSketch) -> None:
    judge, pool = learnt(make_sketch)
    judge.feed(pool.tick())
    judge.feed({})
    judge.feed(pool.tick())
    assert [value is None for value in judge.comparisons["tpot"].lines["typical"].value] == [False, True, False]


@pytest.mark.slow
@pytest.mark.parametrize(("levels", "guarded"), [([0.5, 0.9], True), ([0.9], False)])
def test_one_quantile_of_one_metric_is_all_that_is_looked_at(
    make_sketch: MakeSketch, levels: list[float], guarded: bool
) -> None:
    plan = plan_of(SPEC.model_copy(update={"metrics": ["tpot"], "levels": {"tpot": levels}}))
    assert plan is not None
    judge, pool = Judge.start(plan, control="concurrent"), Pool(make_sketch, 1)
    judge.rehearse({"tpot": [pool.tick()["tpot"] for _ in range(PAST_TICKS)]})
    found = judge.comparisons["tpot"]
    assert (TAIL in found.lines, len(found.lines) > 1) == (guarded, guarded)
    assert (found.wanted.gap_ticks, found.wanted.fading_ticks) == (0.0, 0.0), "nobody spoke of a gap or of a start"


@pytest.mark.slow
def test_not_worse_is_said_once_each_is_shown_with_a_past_or_without(make_sketch: MakeSketch) -> None:
    judge, pool = Judge.start(plan_with(0.25), control="concurrent"), Pool(make_sketch, 1)
    past = [pool.tick() for _ in range(PAST_TICKS)]
    history = {metric: [windows[metric] for windows in past] for metric in judge.reads}
    judge.rehearse({**history, "tpot": history["tpot"][-60:]})
    assert set(judge.streams) == {"tpot"} and "prefill" in judge.comparisons
    before: set[tuple[bool, bool]] = set()
    for _ in range(60):
        for _ in range(5):
            judge.feed(pool.tick())
        judge.look()
        shown = judge.comparisons["prefill"].is_not_worse, judge.streams["tpot"].is_not_worse
        assert (judge.verdict() is Verdict.NOT_WORSE) == (all(shown) and judge.harmless and not judge.held_back())
        before.add(shown)
        if judge.verdict() is not None:
            break
    assert judge.verdict() is Verdict.NOT_WORSE and (True, False) in before


def test_the_last_wave_compares_no_latency_without_a_known_past(make_sketch: MakeSketch) -> None:
    plan = plan_of(SPEC)
    assert plan is not None
    judge = Judge.start(plan, control="before", harm_part=harm_part(is_wave=True, waves=4))
    assert judge.bound == pytest.approx(math.log(3 / (0.01 * 0.5 / 4))), "two metrics, and the share served"
    assert judge.compares
    judge.compare_known_pasts_alone()
    assert not judge.compares and judge.verdict() is None and judge.harmless
