"""What traffic is like, in figures. Pure."""

from collections.abc import Sequence
from itertools import pairwise
from math import floor, sqrt

from controlplane.contract.bodies.workload import TrafficFigures, Workload

TOLD = (50, 95, 99)
"""Percentiles of lengths."""


def figures_of(workload: Workload) -> TrafficFigures:
    requests = workload.requests
    gaps = [(after.timestamp - before.timestamp) / 1000.0 for before, after in pairwise(requests)]
    span = sum(gaps)
    mean = span / len(gaps) if gaps else 0.0
    spread = sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) if gaps else 0.0
    return TrafficFigures(
        requests=len(requests),
        span_s=round(span, 2),
        rate_per_s=round(len(gaps) / span, 3) if span > 0 else 0.0,
        arrival_cv=round(spread / mean, 3) if mean > 0 else 0.0,
        input_tokens=percentiles([request.input_length for request in requests]),
        output_tokens=percentiles([request.output_length for request in requests]),
        output_tokens_per_s=round(sum(one.output_length for one in requests) / span, 3) if span > 0 else 0.0,
        prefix_share=round(prefix_share(workload), 4),
    )


def percentiles(lengths: Sequence[int]) -> dict[str, int]:
    """By name, between order statistics (Hyndman and Fan 1996, type 7), rounded down; 0 of none."""
    ordered = sorted(lengths) or [0]

    def at(share: float) -> int:
        place = share * (len(ordered) - 1)
        low = floor(place)
        high = min(low + 1, len(ordered) - 1)
        return int(ordered[low] + (place - low) * (ordered[high] - ordered[low]))

    return {f"p{percent}": at(percent / 100) for percent in TOLD}


def prefix_share(workload: Workload) -> float:
    """Prompt tokens in blocks that an earlier request had too / all prompt tokens: what an endless cache would save."""
    seen: set[int] = set()
    shared = total = 0
    for request in workload.requests:
        total += request.input_length
        shared += workload.block_size * sum(identity in seen for identity in request.hash_ids)
        seen.update(request.hash_ids)
    return shared / total if total else 0.0
