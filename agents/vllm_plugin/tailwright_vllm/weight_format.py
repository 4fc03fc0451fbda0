"""The weight format that vLLM runs, by vLLM's name and the width that the checkpoint says."""

from collections.abc import Mapping
from typing import Any


def weight_format(model_config: Any) -> str | None:
    """vLLM's name of the quantization; None: plain. Where the checkpoint says its width, that stands behind a slash:
    "compressed-tensors/int8", "compressed-tensors/float8", "gptq/int4". A model of several widths gets none.
    """
    name = getattr(model_config, "quantization", None)
    if name is None:
        return None
    told = getattr(getattr(model_config, "hf_config", None), "quantization_config", None)
    widths = _widths(told) if isinstance(told, Mapping) else set()
    return f"{name}/{widths.pop()}" if len(widths) == 1 else str(name)


def _widths(told: Mapping[str, Any]) -> set[str]:
    groups = told.get("config_groups")  # As compressed-tensors writes it.
    if isinstance(groups, Mapping):
        weights = [group.get("weights") for group in groups.values() if isinstance(group, Mapping)]
        return {f"{one.get('type')}{one.get('num_bits')}" for one in weights if isinstance(one, Mapping)}
    bits = told.get("bits")  # GPTQ and AWQ.
    return {f"int{bits}"} if isinstance(bits, int) else set()
