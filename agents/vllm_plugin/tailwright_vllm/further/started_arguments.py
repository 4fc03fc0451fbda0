"""What became of arguments that vLLM was started with: read from its configuration, by the names that the agent asks.

Guarantee: a value is told only where every part of vLLM's configuration that has one of that name has the same, a
number, true or false: a word may be a name for what vLLM then chose.
"""

import os
from typing import Any

VARIABLE = "TAILWRIGHT_VLLM_TELL"
"""Names, with commas between them: those of vLLM's arguments, with _ for -."""
_PARTS = ("cache_config", "scheduler_config", "model_config", "parallel_config", "compilation_config", "load_config")


def started_arguments(scheduler: Any) -> "dict[str, bool | int | float]":
    """By name; empty where the agent asks for none."""
    config = getattr(scheduler, "vllm_config", None)
    parts = [part for part in (getattr(config, name, None) for name in _PARTS) if part is not None]
    found = {}
    for name in filter(None, os.environ.get(VARIABLE, "").split(",")):
        values = [getattr(part, name) for part in parts if hasattr(part, name)]
        if values and isinstance(values[0], (bool, int, float)) and all(value == values[0] for value in values):
            found[name] = values[0]
    return found
