"""The change itself: one node away at a time, whom it leaves unserved, and what the others then take on."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.knobs import ChangeClass, parse_config
from controlplane.contract.planning.whatif import ChangeOver
from tests.tuner.served_pool import SHAPE, TRUTH, traffic
from tuner.twin.answer.change_over import Way, busiest, change_over, stays
from tuner.twin.dealt_traffic import Scale
from tuner.twin.pool_run import Pool, Replica, embedded, run_pool
from tuner.twin.simulated_engine import Arrival
from tuner.workload.rescale import scale_rate

WANTED = [("ttft", 0.95)]
SMALL = parse_config({"max_num_batched_tokens": 256, "max_num_seqs": 16})
LARGE = parse_config({"max_num_batched_tokens": 512, "max_num_seqs": 16})
RESTART_S = {ChangeClass.RESTART: 12.0}


def way(now: int, then: int, requests: int = 330, per_s: float = 6.0) -> Way:
    pools = [Pool(SHAPE, config, TRUTH, replicas=count) for config, count in ((SMALL, now), (LARGE, then))]
    workload = scale_rate(traffic(seed=5, requests=requests, per_s=3.0), per_s / 3.0)
    return Way(pools[:1], pools[1:], workload, Scale(), since_s=10.0, until_s=45.0, error={})


def asked(own: Way, change_class: ChangeClass | None, took_s: dict[ChangeClass, float]) -> ChangeOver:
    found = change_over(own, change_class, took_s, WANTED)
    assert found is not None
    return found


@given(st.integers(1, 6), st.integers(1, 6), st.booleans(), st.floats(0.0, 50.0), st.floats(0.1, 20.0))
def test_one_node_at_a_time_is_away_and_all_are_changed_afterwards(
    now: int, then: int, stops: bool, begin_s: float, each_s: float
) -> None:
    served = stays(now, then, stops=stops, begin_s=begin_s, each_s=each_s)
    times = [
        begin_s - 1.0,
        *(begin_s + each_s * (place + 0.5) for place in range(min(now, then))),
        begin_s + each_s * (now + 1),
    ]
    there = [[one for one in served if one.since_s <= at < one.until_s] for at in times]
    assert len(there[0]) == now and all(len(some) >= now - stops for some in there[:-1])
    assert len(there[-1]) == then and all(one.changed for one in there[-1])
    assert not any(stops and one.changed and one.since_s < begin_s + each_s for one in served)


def test_it_begins_where_most_requests_come_while_it_lasts() -> None:
    at_s = np.array([0.0, 5.0, 10.0, 20.0, 20.5, 21.0, 40.0, 41.0])
    assert busiest(at_s, 2.0, since_s=1.0, until_s=50.0) == 20.0
    assert busiest(at_s, 2.0, since_s=22.0, until_s=50.0) == 40.0
    assert busiest(at_s, 2.0, since_s=60.0, until_s=70.0) == 60.0


def test_nothing_is_told_of_what_nobody_measured_and_nothing_stops_for_a_live_change() -> None:
    assert change_over(way(2, 2), None, RESTART_S, WANTED) is None
    unknown = asked(way(2, 2), ChangeClass.RESTART, {})
    assert unknown.seconds is None and not unknown.quantiles
    assert asked(way(1, 2), None, {ChangeClass.LIVE: 0.1}).seconds is None
    live = asked(way(2, 2), ChangeClass.LIVE, {ChangeClass.LIVE: 0.1})
    assert live.seconds == 0.1 and not live.quantiles and not live.unserved


def test_a_pool_of_one_leaves_all_unserved_that_come_meanwhile() -> None:
    told = asked(way(1, 1), ChangeClass.RESTART, RESTART_S)
    assert told.seconds == 12.0 and told.requests == told.unserved > 50 and not told.quantiles


@pytest.mark.slow
def test_while_one_of_two_is_away_the_other_carries_the_load_of_both() -> None:
    own = way(2, 2, requests=1000, per_s=25.0)
    told = asked(own, ChangeClass.RESTART, {ChangeClass.RESTART: 4.0})
    assert (told.seconds, told.each_s, told.unserved) == (8.0, 4.0, 0)
    both, alone = (run_pool(Pool(SHAPE, SMALL, TRUTH, replicas=count), own.workload, Scale()) for count in (2, 1))
    usual_s, alone_s = (run.quantile("ttft", 0.95, 10.0) for run in (both, alone))
    assert usual_s is not None and alone_s is not None
    assert 2.0 * usual_s < told.quantiles["ttft:0.95"].value_s < 1.5 * alone_s


@pytest.mark.slow
def test_until_an_added_node_has_started_those_of_now_carry_it() -> None:
    """With as much time to start as the span has, it is as if none were added."""
    own = way(1, 2)
    told = asked(own, ChangeClass.LIVE, RESTART_S | {ChangeClass.RESTART: math.inf})
    alone = run_pool(Pool(SHAPE, LARGE, TRUTH, replicas=1), own.workload, Scale())
    begin_s = busiest(alone.at_s, math.inf, own.since_s, own.until_s)
    assert told.quantiles["ttft:0.95"].value_s == alone.quantile("ttft", 0.95, begin_s)
    soon = asked(own, ChangeClass.LIVE, {ChangeClass.RESTART: 2.0})
    assert soon.requests < told.requests and soon.unserved == told.unserved == 0


@pytest.mark.slow
def test_who_serves_again_has_an_empty_cache() -> None:
    """A third of the requests share a prefix, which the first of them on each engine pays for."""
    hits: list[int] = []

    def watched(pool: Pool, arrivals: Sequence[Arrival]) -> Replica:
        served = embedded(pool, arrivals)
        hits.append(served.hits)
        return served

    own = way(1, 1)
    pools = [replace(own.now[0], serve=watched)]
    run_pool(pools[0], own.workload, Scale())
    asked(replace(own, now=pools, then=pools), ChangeClass.RESTART, {ChangeClass.RESTART: 1e-6})
    without, before, after = hits
    assert min(before, after) > 0 and before + after < without
