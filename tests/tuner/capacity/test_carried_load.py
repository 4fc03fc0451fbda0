"""The largest load of simulated queues lies in its interval about as often as it says."""

import heapq
import math
from collections.abc import Sequence

import numpy as np
import pytest

from controlplane.contract.bodies.slo import Limit
from controlplane.contract.planning.measurement import CarriedLoad, Carries
from tests.soak import soak
from tuner.capacity.bracket import LEAST, first_load, next_load
from tuner.capacity.carried_load import Kept, Replayed, carried_load, counted, fit_of, largest_kept, over_runs
from tuner.replay.completion import RequestTiming

KEPT = Kept([Limit(metric="ttft", q=0.9, limit_s=1.0)], 0.02)
REPLAYS = 8
Queue = tuple[np.ndarray, np.ndarray]
"""Gaps between arrivals at load 1, and each request's time at a server, seconds."""


def _queue(seed: int, requests: int) -> Queue:
    random = np.random.default_rng(seed)
    gaps = random.exponential(1.0, requests)
    return gaps / gaps.mean(), random.lognormal(math.log(0.5), 0.6, requests)


def _waits(queue: Queue, load: float, random: np.random.Generator, servers: int = 2) -> list[float]:
    """First come, first served; the gaps in a random order, the machine a little unsteady."""
    gaps, served = queue
    free = [0.0] * servers
    arrivals = np.cumsum(random.permutation(gaps)) / load
    found = []
    for arrival, took in zip(arrivals, served * np.exp(random.normal(0.0, 0.05, len(served))), strict=True):
        begin = max(float(arrival), heapq.heappop(free))
        heapq.heappush(free, begin + float(took))
        found.append(begin - float(arrival) + 0.1 * float(took))
    return found


def _timings(waits: Sequence[float], lost: int = 0) -> list[RequestTiming]:
    return [
        RequestTiming(place, float(place), ttft_s=wait, e2e_s=wait, error="429" if place < lost else "")
        for place, wait in enumerate(waits)
    ]


def _measured(queue: Queue, seed: int) -> CarriedLoad:
    random = np.random.default_rng(seed)
    replays: list[Replayed] = []
    load: float | None = first_load(seed)
    while load is not None and len(replays) < REPLAYS:
        replays.append(Replayed(load, _timings(_waits(queue, load, random)), KEPT))
        load = next_load(fit_of(replays))
    return carried_load(replays, times=1.0, rate_per_s=1.0, seed=0)


def _true(queue: Queue) -> float:
    """The load at which half of all orders of the gaps keep the limit."""
    low, high = LEAST, 16.0
    for _ in range(9):
        middle = math.sqrt(low * high)
        random = np.random.default_rng(7)
        typical = np.median([np.quantile(_waits(queue, middle, random), 0.9) for _ in range(40)])
        low, high = (middle, high) if typical <= 1.0 else (low, middle)
    return math.sqrt(low * high)


@pytest.mark.slow
@pytest.mark.soak
def test_the_interval_holds_the_true_load_of_a_queue_about_as_often_as_it_says() -> None:
    held, off = 0, []
    for seed in range(soak(20, 40)):
        queue = _queue(seed, 80)
        found, true = _measured(queue, seed), _true(queue)
        held += found.low <= true and (found.high is None or true <= found.high)
        off.append(math.log(found.load / true))
    assert held >= soak(16, 33), f"95 % of 20 and of 40 are 19 and 38; {held} held"
    assert abs(float(np.median(off))) < 0.1


def _steady(load: float, wait: float, lost: int = 0, requests: int = 30) -> Replayed:
    return Replayed(load, _timings([wait] * requests, lost), KEPT)


def test_it_lies_where_the_limit_is_crossed_and_is_told_in_times_of_the_captured_load() -> None:
    replays = [_steady(1.0, 0.25), _steady(2.0, 0.5), _steady(4.0, 2.0)]
    found = carried_load(replays, times=1.5, rate_per_s=3.0, seed=0)
    assert found.load == pytest.approx(1.5 * 2.0 * 2**0.5) and found.limit == "ttft:0.9"
    assert found.request_s == pytest.approx(1 / (3.0 * 2.0 * 2**0.5))
    assert 3.0 <= found.low <= found.load <= (found.high or 0) <= 6.0
    assert [one.load for one in found.replays] == [1.5, 3.0, 6.0]
    assert [one.violations["ttft:0.9"] for one in found.replays] == pytest.approx([-0.75, -0.5, 1.0])
    assert largest_kept(replays, found, 1.5) == 1
    assert carried_load(replays, times=1.5, rate_per_s=3.0, seed=0) == found


def test_lost_requests_are_a_limit_too() -> None:
    found = carried_load([_steady(1.0, 0.1), _steady(2.0, 0.1, lost=10)], times=1.0, rate_per_s=1.0, seed=0)
    assert found.limit == "errors" and 1.0 <= found.load < 2.0
    gone = carried_load([_steady(1.0, 0.1, lost=30)], times=1.0, rate_per_s=1.0, seed=0)
    assert gone.replays[0].violations["ttft:0.9"] == pytest.approx(3.0)


def test_what_every_load_keeps_is_told_as_at_least() -> None:
    found = carried_load([_steady(1.0, 0.1), _steady(2.0, 0.2)], times=1.0, rate_per_s=1.0, seed=0)
    assert (found.load, found.at_least, found.high, found.limit) == (2.0, True, None, None)


def test_what_no_load_keeps_is_none_and_yet_a_figure() -> None:
    replays = [_steady(1.0, 3.0), _steady(0.5, 3.0)]
    found = carried_load(replays, times=1.0, rate_per_s=1.0, seed=0)
    assert (found.load, found.low, found.high, found.at_least) == (0.0, 0.0, 0.0, False)
    assert found.request_s == 2.0 / LEAST and counted(0.0) == LEAST / 2.0
    assert largest_kept(replays, found, 1.0) == 1


def test_several_runs_are_one_by_their_geometric_mean() -> None:
    runs = [Carries(load=2.0, low=1.0, high=3.0), Carries(load=4.5, low=4.0, high=5.0)]
    found = over_runs(runs, 1.0)
    assert found is not None and found.load == pytest.approx(3.0)
    assert found.high is not None and found.low * found.high == pytest.approx(9.0)
    assert over_runs([], 1.0) is None and over_runs(runs[:1], 1.0) == runs[0]
    open_ended = over_runs([*runs, Carries(load=8.0, low=4.0, at_least=True)], 1.0)
    assert open_ended is not None and open_ended.at_least and open_ended.high is None
    none = Carries(load=0.0, low=0.0, high=0.0)
    assert over_runs([none, none], 1.0) == none
    some = over_runs([none, Carries(load=LEAST, low=0.1, high=0.2)], 1.0)
    assert some is not None and some.load == pytest.approx(LEAST / 2**0.5)
