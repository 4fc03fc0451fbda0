"""A vLLM server's memory, as far as `vllm:cache_config_info` of its GET /metrics tells it. Pure.

Guarantee: only what vLLM says; a figure that it leaves out or writes as None is not told. Weights, activations and how
much memory there is are not among its metrics.
"""

import math
from collections.abc import Mapping

from pydantic import ValidationError

from controlplane.contract.reports.node_memory import NodeMemory


def cache_memory(labels: Mapping[str, str]) -> NodeMemory | None:
    """Out of the metric's labels; None where they tell nothing."""
    tokens = _whole(labels.get("kv_cache_size_tokens"))
    if tokens is None:
        blocks, size = _whole(labels.get("num_gpu_blocks")), _whole(labels.get("block_size"))
        tokens = None if blocks is None or size is None else blocks * size
    told = {
        "kv_cache_memory_bytes": _whole(labels.get("kv_cache_memory_bytes")),
        "kv_cache_size_tokens": tokens,
        "max_model_len": _longest(tokens, labels.get("kv_cache_max_concurrency")),
    }
    try:
        return NodeMemory.model_validate(told) if any(told.values()) else None
    except ValidationError:
        return None  # Another vLLM's labels: nothing of them is believed.


def _longest(tokens: int | None, concurrency: str | None) -> int | None:
    """vLLM tells the cache's tokens as its greatest concurrency times max_model_len, rounded down."""
    try:
        times = float(concurrency or "")
    except ValueError:
        return None
    if tokens is None or not 1 <= times < math.inf:
        return None
    return math.ceil(tokens / times - 1e-6)


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() and int(text) > 0 else None
