"""A finish carried out: who runs heats, who meets the default, and when it is over."""

from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.bodies.studies import RunOrder, StudyCreate, Trial, TrialState
from controlplane.contract.knobs import EngineConfig
from tuner.replay.completion import RequestTiming, pool_samples
from tuner.replay.replay import ReplayResult
from tuner.search.objective import Assessment, assess
from tuner.search.search import Outcome
from tuner.study.finish import Begun, Finish, NotMeasured
from tuner.study.heats import HEATS
from tuner.study.remeasure import USUAL_PAIRS
from tuner.study.time_plan import TimePlan
from tuner.study.trial_node import TrialNode
from tuner.study.trial_run import Measured

DEFAULT = EngineConfig(max_num_batched_tokens=64).knobs()
SPEC = StudyCreate(pool="p", max_duration_s=10_000, constraints=[Limit(metric="ttft", q=0.95, limit_s=1.0)])


class Node:
    """Where another weight format costs as much as many runs."""

    def charge(self, knobs: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> float:
        return 500.0 if knobs["quantization"] != (before or DEFAULT)["quantization"] else 0.0


def outcome(number: int, tokens: int, quantization: str = "none") -> Outcome:
    knobs = DEFAULT | {"max_num_batched_tokens": tokens, "quantization": quantization}
    return Outcome(number, knobs, Assessment(1.0, {}))


class World:
    """`seconds`: what each request takes in all, by the tokens of a step; None: it cannot be measured."""

    def __init__(
        self,
        seconds: Mapping[int, float | None],
        ttft_s: Callable[[int, int], float] = lambda _, __: 0.1,
        *,
        before: "World | None" = None,
        until: int = 0,
        spent_s: float = 0.0,
    ) -> None:
        """`ttft_s`: by tokens and heat; `before`: another worker's finish, lost after `until` runs with hardly any time
        left; `spent_s`: before the finish.
        """
        self.seconds, self.ttft_s = seconds, ttft_s
        self.runs: list[tuple[int, int]] = []
        self.fails_from = 1000
        self.done: list[tuple[dict[str, Any], RunOrder, Measured]] = [] if before is None else before.done[:until]
        spent_s = 9_990.0 if before else spent_s
        time_plan = TimePlan(SPEC, before_s=spent_s, clock=lambda: 10.0 * len(self.runs), run_s=[10.0, 10.0])
        begun = Begun.of([_trial(knobs, order, measured) for knobs, order, measured in self.done])
        self.finish = Finish(
            SPEC, cast(TrialNode, Node()), time_plan, self.run, lambda _: None, known=self.known, begun=begun
        )

    def known(self, knobs: dict[str, Any], heat: int) -> Measured | None:
        return next((done for had, order, done in self.done if had == knobs and order.heat == heat), None)

    def run(self, knobs: dict[str, Any], order: RunOrder) -> Measured:
        tokens, heat = knobs["max_num_batched_tokens"], order.heat
        assert heat is not None
        if known := self.known(knobs, heat):
            return known
        self.runs.append((tokens, heat))
        if (seconds := self.seconds[tokens]) is None or heat >= self.fails_from:
            return Measured.failed("it broke")
        wobble = 1.0 + 0.01 * (heat % 2)
        timings = [RequestTiming(place, 0.0, ttft_s=self.ttft_s(tokens, heat), output_tokens=1) for place in range(5)]
        for timing in timings:
            timing.e2e_s = seconds * wobble
        result = ReplayResult(timings, 1.0, 0.0, samples=pool_samples(timings))
        measurement = result.measurement([])
        self.done.append((knobs, order, Measured(assess(measurement, SPEC), measurement, result.samples)))
        return self.done[-1][2]


def _trial(knobs: dict[str, Any], order: RunOrder, measured: Measured) -> Trial:
    return Trial(
        id=1,
        study_id=1,
        number=1,
        kind="finalist",
        knobs=knobs,
        order=order,
        state=TrialState.COMPLETE,
        objective_s=measured.assessment.objective_s,
        violations=measured.assessment.violations,
        measurement=measured.measurement,
        samples={name: list(values) for name, values in measured.samples.items()},
    )


def test_finalists_run_heats_and_one_of_them_meets_the_default() -> None:
    world = World({64: 2.0, 128: 1.1, 256: 1.0, 512: 1.6})
    found = world.finish.decide([outcome(1, 128), outcome(2, 256), outcome(3, 512)], DEFAULT)
    assert found.winner.number == 2
    heats = [run for run in world.runs if run[1] < HEATS]
    assert heats == [(128, 0), (256, 0), (512, 0), (256, 1), (128, 1)], "512 was far behind after one"
    pairs = world.runs[len(heats) :]
    assert pairs[:4] == [(64, HEATS), (256, HEATS), (256, HEATS + 1), (64, HEATS + 1)]
    assert 3 <= found.race.pairs < USUAL_PAIRS and found.race.found.low > 0.4
    assert found.excess["ttft:0.95"] == pytest.approx(-0.9) and not found.race.unsure


def test_a_finalist_that_a_dear_change_parts_from_the_first_runs_no_heat() -> None:
    world = World({64: 2.0, 128: 1.0, 256: 0.5})
    assert world.finish.decide([outcome(1, 128), outcome(2, 256, "int8")], DEFAULT).winner.number == 1
    assert (256, 0) not in world.runs and world.runs[0] == (64, HEATS)


def test_a_limit_that_breaks_in_fresh_runs_is_told() -> None:
    world = World({64: 2.0, 128: 1.5}, lambda _, __: 1.2)
    found = world.finish.decide([outcome(1, 128)], DEFAULT)
    assert found.excess["ttft:0.95"] == pytest.approx(0.2) and found.race.unsure == ["ttft:0.95"]


def _turned(tokens: int, heat: int) -> float:
    """The fastest keeps its limit in the heats, and in no pair."""
    return 1.2 if tokens == 128 and heat >= HEATS else 0.1


TURNED: dict[int, float | None] = {64: 2.0, 128: 1.0, 256: 1.1}
BOTH = [outcome(1, 128), outcome(2, 256)]
HEATS_RUN, FIRST_RUN = 4, 10
"""Runs until the heats are over, and the pairs of the first."""


def test_where_a_faster_one_broke_a_limit_the_next_meets_the_default() -> None:
    """In pairs of its own, with fresh runs of the default."""
    world = World(TURNED, _turned)
    found = world.finish.decide(BOTH, DEFAULT)
    assert found.winner.number == 2 and found.race.found.low > 0.3 and not found.race.unsure
    raced = world.runs[HEATS_RUN:]
    assert {tokens for tokens, _ in raced[: FIRST_RUN - HEATS_RUN]} == {64, 128}
    assert {tokens for tokens, _ in raced[FIRST_RUN - HEATS_RUN :]} == {64, 256}
    heats = [heat for _, heat in raced]
    assert heats[FIRST_RUN - HEATS_RUN] == HEATS + USUAL_PAIRS, "no run stands for two"


def test_who_is_not_shown_to_be_faster_is_followed_by_nobody() -> None:
    """Else the next would be a second chance to be called better by luck."""
    even = World({64: 1.0, 128: 1.0, 256: 1.01}, _turned)
    assert even.finish.decide(BOTH, DEFAULT).winner.number == 1
    assert 256 not in {tokens for tokens, heat in even.runs if heat >= HEATS}


def test_without_time_for_as_many_pairs_or_a_run_of_the_next_the_first_is_told() -> None:
    short = World(TURNED, _turned, spent_s=9_650.0)
    found = short.finish.decide(BOTH, DEFAULT)
    assert found.winner.number == 1 and found.race.unsure == ["ttft:0.95"]
    broken = World(TURNED, _turned)
    broken.fails_from = HEATS + USUAL_PAIRS
    again = broken.finish.decide(BOTH, DEFAULT)
    assert again.winner.number == 1 and broken.runs[-1][1] == broken.fails_from


@pytest.mark.parametrize("until", range(HEATS_RUN + 1, FIRST_RUN + 6))
def test_gone_on_with_among_the_next_ones_pairs_it_comes_to_the_same(until: int) -> None:
    """One that had not met the default yet has no time left for it."""
    whole = World(TURNED, _turned)
    found = whole.finish.decide(BOTH, DEFAULT)
    assert len(whole.done) > until
    rest = World(TURNED, _turned, before=whole, until=until)
    again = rest.finish.decide(BOTH, DEFAULT)
    if until >= FIRST_RUN + 2:
        assert whole.runs[:until] + rest.runs == whole.runs
        assert (again.winner, again.excess, again.race.found) == (found.winner, found.excess, found.race.found)
    else:
        assert again.winner.number == 1 and again.race.unsure == ["ttft:0.95"]


def test_what_cannot_be_measured_again_ends_it_with_the_reason() -> None:
    with pytest.raises(NotMeasured, match="re-measurement of the winner failed: it broke"):
        World({64: 2.0, 128: None}).finish.decide([outcome(1, 128)], DEFAULT)


@pytest.mark.parametrize("until", range(6, 11))
def test_gone_on_with_it_measures_the_rest_and_comes_to_the_same(until: int) -> None:
    """Whatever the time left is by then: heats that were run count, and the last look stays where it was."""
    seconds = {64: 2.0, 128: 1.1, 256: 1.0, 512: 1.6}
    finalists = [outcome(1, 128), outcome(2, 256), outcome(3, 512)]
    whole = World(seconds)
    found = whole.finish.decide(finalists, DEFAULT)
    assert len(whole.done) > until
    rest = World(seconds, before=whole, until=until)
    again = rest.finish.decide(finalists, DEFAULT)
    assert whole.runs[:until] + rest.runs == whole.runs
    assert (again.winner, again.excess) == (found.winner, found.excess)
    assert (again.race.last, again.race.design) == (found.race.last, found.race.design)
    assert again.race.found == found.race.found


def test_a_trial_that_was_reported_is_what_was_measured() -> None:
    world = World({64: 2.0})
    order = RunOrder(heat=3, pair=1, pairs=9, design="interleaved", arm="default")
    measured = world.run(DEFAULT, order)
    assert Measured.of(_trial(DEFAULT, order, measured)) == measured
