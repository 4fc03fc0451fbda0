"""Quantiles out of vLLM's /metrics, as Prometheus computes them. Pure.

`histogram_quantile` is Prometheus's for classic histograms (promql/quantile.go, BucketQuantile): the rank q * count is
looked up among cumulative counts and placed linearly inside its bucket, whose lower edge is 0 for the first; a rank
beyond the last finite bound gives that bound.
"""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

NAMES = {
    "ttft": "vllm:time_to_first_token_seconds",
    "itl": "vllm:inter_token_latency_seconds",
    "e2e": "vllm:e2e_request_latency_seconds",
    "queue": "vllm:request_queue_time_seconds",
    "prefill": "vllm:request_prefill_time_seconds",
    "decode": "vllm:request_decode_time_seconds",
}
_LINE = re.compile(r"(?P<name>[\w:]+)_bucket\{(?P<labels>.*)\} (?P<count>\S+)")
_BOUND = re.compile(r'(?:^|,)le="(?P<bound>[^"]+)"')


@dataclass(frozen=True)
class Buckets:
    """Upper bounds in seconds, ascending, the last infinite; `counts` are cumulative."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]

    def since(self, before: "Buckets") -> "Buckets":
        """What was counted after `before`, of the same server."""
        assert self.bounds == before.bounds
        return Buckets(self.bounds, tuple(now - then for now, then in zip(self.counts, before.counts, strict=True)))


def parse(exposition: str) -> dict[str, Buckets]:
    """The histograms of `NAMES` by short name, engines added up. A histogram that is not told is left out."""
    short = {name: key for key, name in NAMES.items()}
    found: dict[str, dict[float, float]] = {}
    for key, bound, count in _bucket_lines(exposition.splitlines(), short):
        series = found.setdefault(key, {})
        series[bound] = series.get(bound, 0.0) + count
    return {
        key: Buckets(tuple(sorted(series)), tuple(series[bound] for bound in sorted(series)))
        for key, series in found.items()
    }


def _bucket_lines(lines: Iterable[str], short: dict[str, str]) -> Iterable[tuple[str, float, float]]:
    for line in lines:
        matched = _LINE.match(line)
        if matched is not None and matched["name"] in short:
            bound = _BOUND.search(matched["labels"])
            if bound is not None:
                yield short[matched["name"]], float(bound["bound"]), float(matched["count"])


def histogram_quantile(q: float, buckets: Buckets) -> float:
    """Seconds; NaN of nothing."""
    total = buckets.counts[-1] if buckets.counts else 0.0
    if not total:
        return math.nan
    rank = q * total
    place = next(index for index, count in enumerate(buckets.counts) if count >= rank)
    if place == len(buckets.bounds) - 1:
        return buckets.bounds[-2]
    low, below = (buckets.bounds[place - 1], buckets.counts[place - 1]) if place else (0.0, 0.0)
    inside = buckets.counts[place] - below
    return low + (buckets.bounds[place] - low) * (rank - below) / inside if inside else buckets.bounds[place]
