"""A twin fitted to several runs together: the costs that made them, a pace, and drafts of all of them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.tuner_measures.from_forecasts.surface_forecasts import NAMES, slice_of
from benchmarks.tuner_measures.from_trials.joint_fit import WIDTH_S, Fitted, _drafts, _solved, fitted
from benchmarks.twin_measures.recorded_engine import RequestTold, Served, StepTold
from benchmarks.twin_measures.recorded_task import task_of
from controlplane.contract.knobs import EngineConfig, canonical_json
from tuner.twin.assumed_drafts import Drafts
from tuner.twin.costs.step_terms import StepCost, Terms
from tuner.twin.costs.telemetry_fit import piece_of, rows
from tuner.twin.simulated_engine import EngineShape

SHAPE = EngineShape(num_blocks=4000)
PER_WINDOW = 10
FULL, NARROW = EngineConfig(), EngineConfig(quantization="int8")
COSTS = {
    "none": StepCost((4e-3, 6e-5, 4e-4, 3e-4, 2e-7, 1e-9)),
    "int8": StepCost((2e-3, 2e-5, 4e-4, 1e-4, 2e-7, 1e-9)),
}
"""What prompts, contexts and products cost is the same in both."""


def served(seed: int, config: EngineConfig, cost: Callable[[Terms], float], drafted: Any = ()) -> Served:
    """Requests by chance, and steps whose windows take what that costs."""
    random = np.random.default_rng(seed)
    found = Served()
    for arrived in np.sort(random.uniform(0, 6, 60)).tolist():
        waits, prefill, decode = random.uniform(0.001, 0.6, 3).tolist()
        first = arrived + waits + prefill
        prompt, outputs = int(random.integers(2, 600)), int(random.integers(2, 60))
        found.told_requests.append(RequestTold(arrived, arrived + waits, first, first + decode, prompt, 0, outputs))
    last = max(one.last_s for one in found.told_requests)
    ends = [(number + 0.5) * WIDTH_S / PER_WINDOW for number in range(int(last / WIDTH_S * PER_WINDOW))]
    places: dict[str, Any] = {"drafted_at": drafted, "accepted_at": tuple(one // 2 for one in drafted)}
    places |= {"drafted": sum(drafted), "accepted": sum(places["accepted_at"])}
    found.told_steps = [StepTold(end, 1.0, kv_usage=0.1, deliveries=10, **places) for end in ends]
    task = task_of(found, slice_of(0), config, WIDTH_S)
    told = rows(task.records, task.windows, piece_of(config))
    assert len(told) >= len(task.windows) - 1, "no window is left out but one that is not whole"
    seconds = {number: cost(one.terms) / one.terms[0] for number, one in enumerate(told)}
    found.told_steps = [
        StepTold(one.ended_s, seconds.get(int(one.ended_s // WIDTH_S), 1e-3), kv_usage=0.1, deliveries=10, **places)
        for one in found.told_steps
    ]
    return found


@pytest.mark.parametrize("seed", range(5))
def test_costs_that_made_the_seconds_are_found_and_none_is_negative(seed: int) -> None:
    random = np.random.default_rng(seed)
    terms, each = random.uniform(0, 5, (60, 7)), random.uniform(0, 2, 7)
    terms[:, 2] = 0.0
    each[random.integers(3, 7)] = 0.0
    found = _solved(terms, terms @ each)
    np.testing.assert_allclose(found[[0, 1, 3, 4, 5, 6]], each[[0, 1, 3, 4, 5, 6]], atol=1e-6)
    assert found[2] == 0.0, "of what no run has, nothing is known"
    noisy = terms @ each * random.lognormal(0, 0.3, 60)
    plain = _solved(terms, noisy)
    assert (plain >= 0).all()
    np.testing.assert_allclose(_solved(terms, 3.0 * noisy), 3.0 * plain, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(_solved(terms * 1000.0, noisy), plain / 1000.0, rtol=1e-6, atol=1e-12)


def test_a_slow_run_counts_no_more_than_a_quick_one() -> None:
    """By what a step takes, not by its seconds."""
    terms = np.ones((4, 1))
    assert _solved(terms, np.array([1.0, 1.0, 1.0, 1.0]))[0] == pytest.approx(1.0)
    mixed = np.vstack([np.full((20, 1), 1.0), np.full((20, 1), 1000.0)])
    off = np.concatenate([np.full(20, 1.1), np.full(20, 900.0)])
    assert 0.95 < _solved(mixed, off)[0] < 1.05


@pytest.mark.parametrize("seed", range(3))
def test_runs_of_two_formats_are_told_apart_and_share_what_is_alike(seed: int) -> None:
    runs, wanted = {}, {}
    for config, name in ((FULL, "none"), (NARROW, "int8")):
        key = canonical_json(config.knobs())
        runs[key] = [served(seed, config, COSTS[name].seconds)]
        task = task_of(runs[key][0], slice_of(0), config, WIDTH_S)
        wanted[name] = [(row.terms, row.seconds) for row in rows(task.records, task.windows, piece_of(config))]
    found = fitted(SHAPE, runs, list(runs), 0)
    assert found.costs.keys() == {"none", "int8"} and found.drafts == Drafts()
    for name, told in wanted.items():
        for terms, seconds in told:
            assert found.costs[name].seconds(terms) == pytest.approx(seconds, rel=0.02)
    both = [found.costs[name].seconds_each for name in ("none", "int8")]
    assert [both[0][place] for place in (2, 4, 5)] == [both[1][place] for place in (2, 4, 5)]
    assert both[0][0] > both[1][0], "a step of full weights costs more"


def test_drafts_are_those_of_all_runs_whatever_their_lengths_and_order() -> None:
    def task(drafts: int, drafted: tuple[int, ...]) -> Any:
        config = EngineConfig(num_speculative_tokens=drafts)
        return task_of(served(1, config, lambda _: 0.01, drafted), slice_of(0), config, WIDTH_S)

    short, long = task(2, (4, 2)), task(4, (6, 4, 4, 2))
    assert _drafts([]) == Drafts()
    one, other = _drafts([short, long]), _drafts([long, short])
    assert one == other and one.by_place and len(one.kept) == 4
    steps = len(served(1, FULL, lambda _: 0.01).told_steps)
    drafted, accepted = [10, 6, 4, 2], [5, 3, 2, 1]
    assert one.kept == Drafts().at_places([steps * n for n in drafted], [steps * n for n in accepted]).kept
    assert _drafts([short]).kept == Drafts().at_places([4.0 * steps, 2.0 * steps], [2.0 * steps, 1.0 * steps]).kept


def test_drafts_that_are_told_without_places_are_told_by_their_sums_and_runs_without_any_tell_nothing() -> None:
    config = EngineConfig(num_speculative_tokens=4)
    drafting = served(1, config, COSTS["none"].seconds, (6, 4, 4, 2))
    task = task_of(drafting, slice_of(0), config, WIDTH_S)
    windows = len(drafting.told_steps)
    sums = _drafts([task.model_copy(update={"drafted_at": [], "accepted_at": []})])
    assert sums == Drafts.seen(16.0 * windows, 8.0 * windows, 10.0 * windows, 4) and not sums.by_place
    key = canonical_json(config.knobs())
    runs = {canonical_json(one.knobs()): [served(2, one, COSTS["none"].seconds)] for one in (FULL, NARROW)}
    runs[key] = [drafting]
    assert fitted(SHAPE, runs, list(runs), 0).drafts == fitted(SHAPE, runs, [key], 0).drafts == _drafts([task])
    assert 0 < _drafts([task]).offered < 1


@pytest.mark.parametrize("factor", [0.4, 1.7])
def test_a_pace_is_found_by_medians_and_moves_nothing_else(factor: float) -> None:
    made, keys = Fitted(SHAPE, COSTS, Drafts()), [canonical_json(one.knobs()) for one in (FULL, NARROW)]
    medians = {key: made.figures(key, 0)[NAMES.index("e2e:0.5")] for key in keys}
    other = Fitted(SHAPE, {name: cost.scaled(1 / factor) for name, cost in COSTS.items()}, Drafts())
    paced = other.paced(medians, 0)
    step = (3.0 / 0.2) ** (1 / 2**6)
    for name, cost in paced.costs.items():
        ratios = [new / old for new, old in zip(cost.seconds_each, COSTS[name].seconds_each, strict=True)]
        assert max(ratios) == pytest.approx(min(ratios)) and 1 / step <= ratios[0] <= step
    assert abs(math.log(paced.figures(keys[0], 0)[0] / medians[keys[0]])) < 0.2
