"""Requests of a made-up pool as columns: homogeneous, or slow for a planted cause."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from controlplane.contract.metrics import PROMPT_BUCKETS
from controlplane.telemetry.request_log.request_columns import Coded, Codes, Floats, Mask, RequestColumns


@dataclass(frozen=True)
class Traffic:
    """columns, with every request's time to first token in `parts`."""

    columns: RequestColumns

    @property
    def ttft(self) -> Floats:
        return self.columns.parts["ttft"]

    def split(self, inside: Mask) -> tuple[RequestColumns, RequestColumns]:
        return taken(self.columns, inside), taken(self.columns, ~inside)

    def slowed(self, slow: Mask, rng: np.random.Generator, by: float = 3.0) -> "Traffic":
        """Those requests took about so many times longer, most of it in prefill."""
        factor = np.where(slow, by * rng.lognormal(0.0, 0.15, len(slow)), 1.0)
        ttft = self.ttft * factor
        parts = {**self.columns.parts, "ttft": ttft, "prefill": ttft - self.columns.parts["queue"]}
        return Traffic(replace(self.columns, parts={**parts, "e2e": parts["decode"] + ttft}))


def traffic(rng: np.random.Generator, size: int, nodes: int = 4, tenants: int = 6) -> Traffic:
    """Everything independent of everything; latencies lognormal, tenants and buckets of unequal sizes."""

    def drawn(names: list[str], chances: list[float] | None = None) -> Coded:
        return Coded(names, rng.choice(len(names), size, p=chances).astype(np.int64))

    weights = 1.0 / np.arange(1, tenants + 1)
    labels = {
        "pool": drawn(["chat"]),
        "node": drawn([f"gpu-{place}" for place in range(nodes)]),
        "revision": drawn(["3", "4"]),
        "model": drawn(["tiny"]),
        "tenant": drawn([f"t{place}" for place in range(tenants)], (weights / weights.sum()).tolist()),
        "region": drawn([""]),
        "prompt_bucket": drawn(list(PROMPT_BUCKETS), [0.4, 0.3, 0.2, 0.07, 0.02, 0.01]),
        "cache_class": drawn(["miss", "partial", "hit"], [0.5, 0.2, 0.3]),
        "finish_reason": drawn(["stop", "length"], [0.8, 0.2]),
    }
    queue, prefill, decode = (rng.lognormal(mean, 0.5, size) for mean in (-4.0, -2.0, 0.5))
    parts = {"queue": queue, "prefill": prefill, "decode": decode, "ttft": queue + prefill}
    parts = {**parts, "e2e": parts["ttft"] + decode}
    nothing = {name: np.full(size, np.nan) for name in ("tpot", "receive", "tokenize", "send", "unaccounted")}
    figures = {
        "output_tokens": rng.integers(1, 400, size).astype(np.float64),
        "running": rng.poisson(8, size).astype(np.float64),
        "waiting": rng.poisson(0.3, size).astype(np.float64),
        "kv_usage": rng.beta(2, 3, size),
        "step_tokens": np.where(rng.random(size) < 0.2, np.nan, rng.integers(1, 2048, size).astype(np.float64)),
    }
    arrival: Codes = np.arange(size, dtype=np.int64)
    return Traffic(RequestColumns(size, labels, arrival, {**parts, **nothing}, figures))


def relabelled(found: Traffic, label: str, change: Callable[[Coded], Codes]) -> Traffic:
    """The same requests with other values of a label."""
    coded = found.columns.labels[label]
    labels = {**found.columns.labels, label: Coded(coded.names, change(coded))}
    return Traffic(replace(found.columns, labels=labels))


def taken(found: RequestColumns, mask: Mask) -> RequestColumns:
    return RequestColumns(
        int(mask.sum()),
        {label: Coded(coded.names, coded.codes[mask]) for label, coded in found.labels.items()},
        found.arrival_ns[mask],
        {name: values[mask] for name, values in found.parts.items()},
        {name: values[mask] for name, values in found.figures.items()},
    )
