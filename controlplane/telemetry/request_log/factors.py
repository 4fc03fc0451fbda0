"""What a request may owe its latency to, each as a column of values, and how one says that it had a value (pure).

Figures are cut into bins at quantiles of all the requests looked at: where the cuts lie tells nothing of who is inside.
"""

from collections.abc import Callable, Mapping

import numpy as np

from controlplane.telemetry.request_log.request_columns import Coded, Floats, RequestColumns

CUTS = (0.25, 0.5, 0.75, 0.9)
NOT_TOLD = -1
"""The code of a request of which nobody told the value."""


def factors(found: RequestColumns) -> dict[str, Coded]:
    """Every label and binned figure by its name."""
    binned = {name: in_bins(values, as_share=name == "kv_usage") for name, values in found.figures.items()}
    return {**found.labels, **binned}


def in_bins(values: Floats, *, as_share: bool) -> Coded:
    """Bins that are named by the smallest and largest value in them. as_share: these are shares, named in percent."""
    told = np.isfinite(values)
    if not told.any():
        return Coded([], np.full(len(values), NOT_TOLD, dtype=np.int64))
    edges = np.unique(np.quantile(values[told], CUTS, method="lower"))
    codes = np.where(told, np.searchsorted(edges, np.where(told, values, 0.0), side="left"), NOT_TOLD)
    there, codes_there = np.unique(codes[told], return_inverse=True)
    codes[told] = codes_there
    names = [_bin_name(values[codes == place], as_share=as_share) for place in range(len(there))]
    return Coded(names, codes.astype(np.int64))


def phrase(factor: str, value: str) -> str:
    """What is true of a request with this value: "ran on gpu-3"."""
    if value == "":
        return f"told no {factor.replace('_', ' ')}"
    say = _PHRASES.get(factor)
    return say(value) if say is not None else f"had {factor} {value}"


def _bin_name(values: Floats, *, as_share: bool) -> str:
    low, high = (f"{round(100.0 * edge)} %" if as_share else f"{edge:g}" for edge in (values.min(), values.max()))
    return low if low == high else f"{low} to {high}"


_CACHE = {
    "miss": "found nothing of their prompt in the prefix cache",
    "partial": "found less than half of their prompt in the prefix cache",
    "hit": "found half or more of their prompt in the prefix cache",
}
_LIMITS = {
    "kv_memory": "want of KV memory",
    "token_budget": "the token budget",
    "max_num_seqs": "max_num_seqs",
    "chunk": "the chunk size",
    "no_work": "nothing but what there was to do",
    "drafts": "rejected drafts",
}
_PHRASES: Mapping[str, Callable[[str], str]] = {
    "pool": lambda value: f"were of pool {value}",
    "node": lambda value: f"ran on {value}",
    "revision": lambda value: f"ran on revision {value}",
    "model": lambda value: f"asked for model {value}",
    "tenant": lambda value: f"were of tenant {value}",
    "region": lambda value: f"ran in region {value}",
    "prompt_bucket": lambda value: f"had a prompt of {value} tokens",
    "cache_class": lambda value: _CACHE.get(value, value),
    "finish_reason": lambda value: f"ended by {value}",
    "output_tokens": lambda value: f"had {value} output tokens",
    "running": lambda value: f"got their first token with {value} requests running",
    "waiting": lambda value: f"got their first token with {value} requests waiting",
    "kv_usage": lambda value: f"got their first token with {value} of the KV cache in use",
    "step_limit": lambda value: f"waited while most steps of their node were bound by {_LIMITS.get(value, value)}",
    "host_state": lambda value: f"waited while the host of their node was {value}",
    "step_tokens": lambda value: f"got their first token in a step of {value} tokens",
}
