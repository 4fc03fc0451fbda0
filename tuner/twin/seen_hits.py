"""Prefix hits of an engine that tells how many tokens were cached, but not of which blocks (vLLM). Pure.

What a request was spared then stands for a beginning that it shares with all others which were spared as much: so the
twin spares it again as long as its cache keeps those blocks, and the first of them pays. Which requests share with each
other only, is not known.
"""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import timedelta

from controlplane.contract.bodies.workload import RequestRecord, Workload

_SHARED = 1
"""The first of these beginnings' block ids."""
_CLOCKS_MS = 0.01
"""A record's arrival is told in microseconds, the workload's in nanoseconds."""


def with_seen_hits(workload: Workload, records: Sequence[RequestRecord]) -> Workload:
    """The same where any request tells its blocks, or none was spared anything."""
    if any(one.hash_ids for one in workload.requests) or not any(one.cached_tokens for one in records):
        return workload
    ordered = sorted(records, key=lambda one: one.arrival)
    came_ms = [(one.arrival - workload.start) / timedelta(milliseconds=1) for one in ordered]
    requests = []
    for request in workload.requests:
        place = bisect_left(came_ms, request.timestamp - _CLOCKS_MS)
        known = place < len(ordered) and came_ms[place] <= request.timestamp + _CLOCKS_MS
        spared = ordered[place].cached_tokens if known else 0
        blocks = list(range(_SHARED, _SHARED + spared // workload.block_size))
        requests.append(request.model_copy(update={"hash_ids": blocks}))
    return workload.model_copy(update={"requests": requests})
