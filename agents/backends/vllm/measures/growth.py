"""What happened between two readings of /metrics. Pure.

Guarantee: over any sequence of readings, with restarts of the server between them, the growths add up to what the
servers counted from the first reading on: nothing twice, and nothing lost but what a server counted after its last
reading. A restart shows by another start time or, where a server does not tell one, by a total that fell; then what the
new server has counted so far is the growth.
"""

import math
from dataclasses import dataclass, field, replace

from agents.backends.vllm.measures import vllm_metric_names
from agents.backends.vllm.measures.scrape_reading import Reading, Series
from controlplane.contract import metrics
from controlplane.contract.reports import finish_reasons

_SAME_START_S = 1.0


@dataclass
class Buckets:
    """Growth of one histogram: its bounds without the infinite one, one count more than bounds, sum of the values."""

    bounds: tuple[float, ...]
    counts: list[int]
    total: float

    @property
    def count(self) -> int:
        return sum(self.counts)


@dataclass
class Growth:
    """By short names of the contract; `requests` by finish reason."""

    buckets: dict[str, Buckets] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    requests: dict[str, int] = field(default_factory=dict)


def restarted(before: Reading, now: Reading) -> bool:
    """Is `now` of another process than `before`?"""
    if before.started is not None and now.started is not None:
        return abs(now.started - before.started) > _SAME_START_S
    return any(now.totals.get(series, math.inf) < total for series, total in before.totals.items())


def continued(before: Reading, now: Reading) -> Reading:
    """`now`, with the series that it happens to lack as they last were: one that comes back has not grown from 0."""
    return now if restarted(before, now) else replace(now, totals={**before.totals, **now.totals})


def growth(before: Reading | None, now: Reading) -> Growth:
    """What was counted between the two; all that `now` tells, when `before` is None or of another process."""
    if before is None or restarted(before, now):
        grown = dict(now.totals)
    else:
        # A sample that the reading before knew nothing of, as an older agent's did, has no growth to tell yet.
        known = {series.sample for series in before.totals}
        grown = {
            series: total - before.totals.get(series, 0.0 if series.sample in known else total)
            for series, total in now.totals.items()
        }
    return Growth(_buckets(grown), _counts(grown), _requests(grown))


def _buckets(grown: dict[Series, float]) -> dict[str, Buckets]:
    found: dict[str, Buckets] = {}
    present = {series.sample for series in grown}
    for short, candidates in vllm_metric_names.HISTOGRAMS.items():
        name = next((name for name in candidates if f"{name}_bucket" in present), None)
        if name is not None:
            up_to = _by_bound(grown, f"{name}_bucket")
            bounds = tuple(bound for bound in sorted(up_to) if math.isfinite(bound))
            heights = [up_to[bound] for bound in bounds] + [up_to.get(math.inf, 0)]
            counts = [height - lower for height, lower in zip(heights, [0, *heights[:-1]], strict=True)]
            total = math.fsum(value for series, value in grown.items() if series.sample == f"{name}_sum")
            if bounds:
                found[short] = Buckets(bounds, counts, max(total, 0.0))
    if (per_token := found.get(metrics.TPOT.short)) is not None:
        # A request of one token has no time between tokens; vLLM counts it as 0, in the first bucket.
        single = _by_bound(grown, vllm_metric_names.OUTPUT_LENGTH_BUCKET).get(1.0, 0)
        per_token.counts[0] -= min(single, per_token.counts[0])
    return {short: one for short, one in found.items() if one.count > 0}


def _by_bound(grown: dict[Series, float], sample: str) -> dict[float, int]:
    found: dict[float, int] = {}
    for series, value in grown.items():
        if series.sample == sample:
            bound = float(series.bound)
            found[bound] = found.get(bound, 0) + round(value)
    return found


def _counts(grown: dict[Series, float]) -> dict[str, int]:
    present = {series.sample for series in grown}
    found = {}
    first = vllm_metric_names.HISTOGRAMS[metrics.TTFT.short][0] + "_bucket"
    if vllm_metric_names.GENERATED in present and first in present:
        # All tokens but those of the first deliveries, which hold one token each: no drafts come before it.
        generated = round(
            math.fsum(value for series, value in grown.items() if series.sample == vllm_metric_names.GENERATED)
        )
        found[metrics.DELIVERED_TOKENS.short] = generated - _by_bound(grown, first).get(math.inf, 0)
    for short, candidates in vllm_metric_names.COUNTERS.items():
        name = next((name for name in candidates if name in present), None)
        if name is not None:
            values = [value for series, value in grown.items() if series.sample == name]
            found[short] = round(math.fsum(values) / (len(values) if short in vllm_metric_names.OF_ONE_GPU else 1))
    return {short: amount for short, amount in found.items() if amount > 0}


def _requests(grown: dict[Series, float]) -> dict[str, int]:
    found: dict[str, int] = {}
    for series, value in grown.items():
        if series.sample == vllm_metric_names.REQUESTS and (amount := round(value)):
            found[series.reason] = found.get(series.reason, 0) + amount
    if refused := _rejections(grown):
        found[finish_reasons.REFUSED] = found.get(finish_reasons.REFUSED, 0) + refused
    return found


def _rejections(grown: dict[Series, float]) -> int:
    return round(math.fsum(value for series, value in grown.items() if series.sample == vllm_metric_names.REJECTIONS))
