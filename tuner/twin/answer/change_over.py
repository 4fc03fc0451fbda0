"""The change itself: who serves while nodes restart one after the other, and until added ones have started.

Guarantee: a request that comes while some node serves is dealt to one that does, as by a balancer that asks for health;
one that serves again has an empty cache. Nothing is made up of a change that nobody has measured.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from controlplane.contract.bodies.workload import Workload
from controlplane.contract.knobs import ChangeClass
from controlplane.contract.planning.whatif import ChangeOver
from tuner.twin.answer.forecast_interval import quantiles_of
from tuner.twin.dealt_traffic import Scale, arrival_of, arrival_times
from tuner.twin.pool_run import Floats, Part, Pool, run_parts
from tuner.workload.trace import hash_id


@dataclass(frozen=True)
class Stay:
    """One engine from its start to its end, seconds of the span. changed: it runs what was asked for."""

    since_s: float
    until_s: float
    changed: bool


@dataclass(frozen=True)
class Way:
    """From where to where. now, then: the pool before and afterwards, a pair for each run of the twin. since_s and
    until_s: of what is scored; error: of the unchanged pool, by `metric:q`."""

    now: Sequence[Pool]
    then: Sequence[Pool]
    workload: Workload
    scale: Scale
    since_s: float
    until_s: float
    error: Mapping[str, float]
    seed: int = 0


def change_over(
    way: Way,
    change_class: ChangeClass | None,
    took_s: Mapping[ChangeClass, float],
    wanted: Sequence[tuple[str, float]],
) -> ChangeOver | None:
    """None where no node has to change. took_s: by class; wanted: (metric, q)."""
    now, then = way.now[0].replicas, way.then[0].replicas
    stops, grows = change_class in (ChangeClass.SWAP, ChangeClass.RESTART), then > now
    if not stops and not grows:
        live_s = took_s.get(ChangeClass.LIVE)
        return None if change_class is None else ChangeOver(change_class=change_class, seconds=live_s, each_s=live_s)
    each_s = took_s.get(change_class if stops and change_class else ChangeClass.RESTART)
    if each_s is None:
        return ChangeOver(change_class=change_class, seconds=None, each_s=None)
    whole_s = each_s * min(now, then) if stops else each_s
    at_s = arrival_times(way.workload, way.scale)
    begin_s = busiest(at_s, whole_s, way.since_s, way.until_s)
    served = stays(now, then, stops=stops, begin_s=begin_s, each_s=each_s)
    runs = [
        run_parts(_parts(way, pools, served, number), way.workload, way.scale, then, way.seed + number)
        for number, pools in enumerate(zip(way.now, way.then, strict=True))
    ]
    during = [float(one) for one in at_s if begin_s <= one < begin_s + whole_s]
    return ChangeOver(
        change_class=change_class,
        seconds=whole_s,
        each_s=each_s,
        requests=len(during),
        unserved=sum(not any(one.since_s <= at < one.until_s for one in served) for at in during),
        quantiles=quantiles_of(runs, wanted, way.error, begin_s, begin_s + whole_s),
    )


def busiest(at_s: Floats, lasts_s: float, since_s: float, until_s: float) -> float:
    """When to begin so that most requests come while it lasts. at_s: ascending; begun at one that comes in between."""
    begins = at_s[(at_s >= since_s) & (at_s <= until_s)]
    if not begins.size:
        return since_s
    counts = np.searchsorted(at_s, begins + lasts_s, "left") - np.searchsorted(at_s, begins, "left")
    return float(begins[int(counts.argmax())])


def stays(now: int, then: int, *, stops: bool, begin_s: float, each_s: float) -> list[Stay]:
    """Of `now` nodes, which are to be `then`. stops: those that stay are away for `each_s`, one after the other; what
    is added has started as soon as the first could have; what is taken away leaves at the end."""
    kept, end_s = min(now, then), begin_s + each_s * min(now, then)
    found = []
    for place in range(kept):
        away_s = begin_s + place * each_s
        if stops:
            found += [Stay(-math.inf, away_s, changed=False), Stay(away_s + each_s, math.inf, changed=True)]
        else:
            found.append(Stay(-math.inf, math.inf, changed=True))
    found += [Stay(-math.inf, end_s, changed=False)] * (now - kept)
    return found + [Stay(begin_s + each_s, math.inf, changed=True)] * (then - kept)


def _parts(way: Way, pools: tuple[Pool, Pool], served: Sequence[Stay], number: int) -> Iterator[Part]:
    """The workload, dealt among those who serve when each request comes."""
    seed, block_size = way.seed + number, way.workload.block_size
    places: list[list[int]] = [[] for _ in served]
    for place, at_s in enumerate(arrival_times(way.workload, way.scale).tolist()):
        there = [stay for stay, one in enumerate(served) if one.since_s <= at_s < one.until_s]
        if there:
            places[there[hash_id(seed, "dealt", place) % len(there)]].append(place)
    requests = way.workload.requests
    for own, stay in zip(places, served, strict=True):
        if own:
            arrivals = [arrival_of(requests[place], place, block_size, way.scale, seed) for place in own]
            yield pools[stay.changed], own, arrivals
