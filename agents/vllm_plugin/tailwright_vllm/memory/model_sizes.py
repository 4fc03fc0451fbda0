"""What a model's own configuration says of its sizes, for effective.json. The agent makes of it what it can.

Guarantee: nothing raises into vLLM; what is no number, text or list of such is left out.
"""

from typing import Any

from tailwright_vllm.surprises import surprises

_PLAIN = (int, float, str)


def model_sizes(model_config: Any) -> dict[str, Any]:
    """By the names of transformers, of the text's decoder; empty where there is no such configuration."""
    try:
        told = getattr(model_config, "hf_text_config", None)
        found: dict[str, Any] = {} if told is None else told.to_dict()
        return {name: value for name, value in found.items() if _is_plain(value)}
    except Exception as error:  # noqa: BLE001 - vLLM must come up whatever its model's configuration is.
        surprises.note("sizes", "the model's sizes are not told", error)
        return {}


def _is_plain(value: Any) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, list) and all(isinstance(one, _PLAIN) for one in value))
