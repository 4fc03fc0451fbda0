"""One answer of vLLM's GET /metrics, reduced to what counts here.

Guarantee: every series is kept apart by its labels (engines, positions), so that a growth of one never hides a fall of
another; a text that is not Prometheus's, or not vLLM's, is a ValueError.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from agents.backends.vllm.measures import vllm_metric_names

_WANTED = (
    vllm_metric_names.CUMULATIVE
    | vllm_metric_names.PRESENT
    | {vllm_metric_names.START_TIME, vllm_metric_names.CACHE_CONFIG}
)


class Series(NamedTuple):
    """One growing series: its sample's name, bucket bound and finish reason where it has them, and its other labels."""

    sample: str
    bound: str
    reason: str
    labels: str


@dataclass(frozen=True)
class Reading:
    """`time`: Unix seconds at which it was read; `started`: of the server process, None where it does not say."""

    time: float
    started: float | None
    model: str
    totals: dict[Series, float]
    gauges: dict[str, float] = field(default_factory=dict)
    cache_config: dict[str, str] = field(default_factory=dict)


def parse(text: str, time_s: float) -> Reading:
    """Raises ValueError."""
    started: float | None = None
    model = ""
    totals: dict[Series, float] = {}
    present: dict[str, list[float]] = {}
    cache_config: dict[str, str] = {}
    for sample in _samples(text):
        labels = dict(sample.labels)
        if sample.name == vllm_metric_names.START_TIME:
            started = sample.value
            continue
        model = model or labels.get(vllm_metric_names.MODEL, "")
        if sample.name == vllm_metric_names.CACHE_CONFIG:
            cache_config = labels
        elif not math.isfinite(sample.value):
            raise ValueError(f"{sample.name} is {sample.value}")
        elif sample.name in vllm_metric_names.PRESENT:
            present.setdefault(sample.name, []).append(sample.value)
        else:
            bound, reason = labels.pop("le", ""), labels.pop(vllm_metric_names.REASON, "")
            rest = ",".join(f"{name}={labels[name]}" for name in sorted(labels))
            totals[Series(sample.name, bound, reason, rest)] = sample.value
    if not totals:
        raise ValueError("there is nothing of vLLM's in it")
    return Reading(time_s, started, model, totals, _gauges(present), cache_config)


def _samples(text: str) -> Iterator[Sample]:
    # Most of the text is of no use here, and parsing it costs more than looking at its beginning.
    lines = [line for line in text.splitlines() if line.partition("{")[0].partition(" ")[0] in _WANTED]
    for family in text_string_to_metric_families("\n".join(lines) + "\n"):
        yield from family.samples


def _gauges(present: dict[str, list[float]]) -> dict[str, float]:
    """By short name. Requests add up over the engines; the share of the cache is that of the fullest one."""
    found = {}
    for short, candidates in vllm_metric_names.GAUGES.items():
        values = next((present[name] for name in candidates if name in present), None)
        if values:
            found[short] = max(values) if short == "kv_usage" else sum(values)
    return found
