"""From what a pool served to what one trial node is given: one node's share, a contiguous busy slice of it. Pure but
for `capture`.

Guarantee: arrival gaps and lengths of the slice are as they were, unless the summary says `compressed` by how much;
whole conversations are kept or left out, so that prefix sharing survives; the summary says everything that was done.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.workload import Workload, WorkloadRequest
from controlplane.contract.errors import NotFound
from controlplane.contract.planning.traffic_figures import figures_of
from tuner.workload.rescale import cut, scale_rate
from tuner.workload.trace import hash_id, workload_of

LEAST_REQUESTS = 5
MOST_PRIME_TOKENS = 4096
BUSY_QUANTILE = 0.8
"""Of all slices, by tokens per second: busy, but not the single worst moment."""
LEAD_IN = 0.25
"""Requests sent ahead of those that are measured, for each of these: an engine that has nothing to do is fast."""
SPAN_STRETCH = 1.5
"""A slice may last this much longer than wanted before it is compressed."""


@dataclass(frozen=True)
class Slice:
    """The workload to replay, and what was done to get it."""

    workload: Workload
    prime: Workload  # Prefixes that were served before the slice: put into the cache, not measured.
    summary: dict[str, Any]
    place: tuple[int, int] = (0, 0)  # First and last (excluded) of the requests of the node's share.
    lead_in: int = 0  # So many of its first requests are sent and not measured.


def capture(client: Client, pool: str, *, end: datetime, span_s: float) -> Workload:
    """What `pool` served in the `span_s` seconds before `end`. Raises NotFound when that is too little."""
    start = end - timedelta(seconds=span_s)
    workload = client.workload(pool, start=start, end=end)
    if len(workload.requests) < LEAST_REQUESTS:
        raise NotFound(
            f"pool {pool}: {len(workload.requests)} requests in the last {span_s:.0f} s, a study needs at least "
            f"{LEAST_REQUESTS}; is traffic flowing, and do the agents send request records?",
            field="workload_s",
        )
    return workload


def conversations(workload: Workload) -> list[int]:
    """For each request the id of its conversation: its first prefix block that is not shared by a crowd.

    A system prompt is shared by many and tells nothing; a conversation's own blocks by few.
    """
    seen = Counter(identity for request in workload.requests for identity in set(request.hash_ids))
    crowd = max(2.0, len(workload.requests) / (4 * max(1, workload.nodes)))
    return [
        next((identity for identity in request.hash_ids if seen[identity] <= crowd), hash_id("alone", index))
        for index, request in enumerate(workload.requests)
    ]


def node_share(workload: Workload) -> Workload:
    """One node's part of the pool's traffic: whole conversations, of `nodes` parts the one nearest to the mean."""
    nodes = max(1, workload.nodes)
    if nodes == 1:
        return workload
    parts: list[list[WorkloadRequest]] = [[] for _ in range(nodes)]
    for request, conversation in zip(workload.requests, conversations(workload), strict=True):
        parts[hash_id("part", conversation) % nodes].append(request)
    mean = len(workload.requests) / nodes
    chosen = min(parts, key=lambda part: abs(len(part) - mean))
    return workload_of(chosen, pool=workload.pool, start=workload.start, block_size=workload.block_size)


def busy_slice(
    workload: Workload, *, span_s: float, requests: int, apart_from: tuple[int, int] | None = None
) -> tuple[int, int]:
    """First and last (excluded) of a contiguous run of at most `requests` requests within about `span_s`.

    Among all such runs the one at the 80th percentile of tokens per second. `apart_from`: a run that was taken before;
    of those that share no request with it the one that is nearest in tokens per second, or else the same again.
    """
    times = [request.timestamp / 1000.0 for request in workload.requests]
    tokens = [request.input_length + request.output_length for request in workload.requests]
    least = min(len(times), max(LEAST_REQUESTS, requests // 2))
    runs: list[tuple[float, int, int]] = []
    for first in range(len(times)):
        last = first
        while last < len(times) and last - first < requests and times[last] - times[first] <= span_s:
            last += 1
        if last - first < least:
            last = first + least
        if last > len(times):
            break
        # A short run is not taken for a busy one: its time is at least half of what was wanted.
        length = max(times[last - 1] - times[first], 0.5 * span_s, 1e-3)
        runs.append((sum(tokens[first:last]) / length, first, last))
    runs.sort()
    wanted = runs[min(len(runs) - 1, math.floor(BUSY_QUANTILE * len(runs)))]
    if apart_from is not None:
        others = [run for run in runs if run[2] <= apart_from[0] or run[1] >= apart_from[1]]
        taken = next((run for run in runs if run[1] == apart_from[0]), wanted)
        wanted = min(others, key=lambda run: abs(run[0] - taken[0]), default=taken)
    return wanted[1], wanted[2]


def slice_for_node(
    workload: Workload,
    *,
    span_s: float,
    requests: int,
    max_total: int | None = None,
    apart_from: Slice | None = None,
    load: float = 1.0,
) -> Slice:
    """One node's share, at `load` times its rate, cut to `requests` and to about `span_s`, and to `max_total` tokens
    per request. Ahead of these stand the requests that came before them, a quarter as many (`lead_in`); of little
    traffic they are taken from what there is.

    `apart_from`: a slice that this one shall share no request with; `apart` in the summary says whether that could be.
    """
    share = node_share(workload)
    if len(share.requests) < LEAST_REQUESTS:
        share = workload
    told = {"captured": describe(workload), "nodes": workload.nodes, "share": describe(share), "load": load}
    if load != 1.0:
        share = scale_rate(share, load)
    taken = None if apart_from is None else apart_from.place
    whole, whole_s = requests + math.ceil(LEAD_IN * requests), (1.0 + LEAD_IN) * span_s
    first, last = busy_slice(share, span_s=whole_s, requests=whole, apart_from=taken)
    chosen = cut(share, first, last)
    lead_in = lead_in_of(last - first)
    factor = max(1.0, _span_s(chosen) / (SPAN_STRETCH * whole_s))
    if factor > 1.0:
        chosen = scale_rate(chosen, factor)
    shortened = 0
    if max_total is not None:
        shortened = sum(
            request.input_length + request.output_length > max_total for request in chosen.requests[lead_in:]
        )
        fitting = [_fit(request, max_total, share.block_size) for request in chosen.requests]
        chosen = workload_of(fitting, pool=share.pool, start=share.start, block_size=share.block_size)
    prime = priming(share.requests[:first], chosen)
    summary = {
        **told,
        "slice": describe(cut(chosen, lead_in, len(chosen.requests))),
        "lead_in": lead_in,
        "slice_start_s": round(load * share.requests[first].timestamp / 1000.0, 3),
        "primed": describe_prime(prime),
        "compressed": round(factor, 3),
        "shortened": shortened,
    }
    if taken is not None:
        summary["apart"] = last <= taken[0] or first >= taken[1]
    return Slice(chosen, prime, summary, (first, last), lead_in)


def unprimed(piece: Slice) -> Slice:
    """Without the prefixes that were served before: of other text there are none."""
    empty = workload_of([], block_size=piece.workload.block_size)
    return replace(piece, prime=empty, summary={**piece.summary, "primed": describe_prime(empty)})


def lead_in_of(requests: int) -> int:
    """How many of so many requests are sent ahead of the others; fewer than a study wants are all measured."""
    return min(math.ceil(requests * LEAD_IN / (1.0 + LEAD_IN)), max(0, requests - LEAST_REQUESTS))


def priming(earlier: Sequence[WorkloadRequest], slice_: Workload) -> Workload:
    """One request for each prefix of the slice that a production cache would hold from earlier requests.

    Without them a short slice would find far fewer prefixes than production does. At most MOST_PRIME_TOKENS, in the
    slice's order. One token beyond the last block makes the engine compute that block whole.
    """
    known = {identity for request in earlier for identity in request.hash_ids}
    seen: set[int] = set()
    wanted: list[tuple[int, list[int]]] = []
    for request in slice_.requests:
        prefix = list(takewhile(known.__contains__, request.hash_ids))
        new = [identity for identity in prefix if identity not in seen]
        seen.update(prefix)
        if new:
            wanted.append((len(new) * slice_.block_size, prefix))
    left = MOST_PRIME_TOKENS
    chosen: list[WorkloadRequest] = []
    for tokens, prefix in wanted:
        if tokens <= left:
            left -= tokens
            length = len(prefix) * slice_.block_size + 1
            chosen.append(WorkloadRequest(timestamp=0, input_length=length, output_length=1, hash_ids=prefix))
    return workload_of(chosen, block_size=slice_.block_size)


def describe_prime(prime: Workload) -> dict[str, int]:
    return {"prefixes": len(prime.requests), "blocks": len({i for r in prime.requests for i in r.hash_ids})}


def describe(workload: Workload) -> dict[str, Any]:
    """Requests, rate, coefficient of variation of the gaps, length quantiles, and the share of repeated prefix
    tokens.
    """
    return figures_of(workload).model_dump()


def _span_s(workload: Workload) -> float:
    requests = workload.requests
    return (requests[-1].timestamp - requests[0].timestamp) / 1000.0 if requests else 0.0


def _fit(request: WorkloadRequest, max_total: int, block_size: int) -> WorkloadRequest:
    output_length = min(request.output_length, max(1, max_total - 1))
    input_length = max(1, min(request.input_length, max_total - output_length))
    ids = request.hash_ids[: input_length // block_size]
    return request.model_copy(update={"input_length": input_length, "output_length": output_length, "hash_ids": ids})
