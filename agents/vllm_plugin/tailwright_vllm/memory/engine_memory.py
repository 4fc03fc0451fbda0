"""What vLLM's memory holds and how much there is, asked of its workers once, when the KV cache has been made.

vLLM calls `register` in each of its processes (entry point `vllm.general_plugins`). In the engine's process it lets
`Executor.initialize_from_config` be followed by one question to every worker; the scheduler, which is made after that,
tells the answer in effective.json (`limits.py`). Names are those of the agent's `effective.memory`; bytes are summed
over the workers, and a figure that one of them does not have is left out.

Guarantee: nothing is asked once vLLM serves, and nothing raises into vLLM. Workers on other machines are not asked: one
without this plugin would leave vLLM with half of the answers.
"""

import functools
from collections.abc import Sequence
from typing import Any

from tailwright_vllm.folder import VARIABLE, shared_folder
from tailwright_vllm.memory.worker_memory import SIZED_BY_ROOM, note_start, read_worker
from tailwright_vllm.surprises import log, surprises

_LOGIT_BYTES = 4
"""vLLM samples from float32."""
_CONSEQUENCE = "what vLLM's memory holds is not told"
_told: dict[str, Any] = {}
_WRAPPED = "_tailwright_wrapped"


def memory() -> dict[str, Any]:
    """What was found in this process; empty where nothing was."""
    return dict(_told)


def register() -> None:
    """vLLM calls it in each process, in some more than once."""
    try:
        if shared_folder() is None:
            log.debug("tailwright: nothing is asked of vLLM's memory, %s is not set", VARIABLE)
            return
        note_start()
        _wrap()
    except Exception as error:  # noqa: BLE001 - vLLM must come up whatever is wrong with the plugin.
        surprises.note("memory", _CONSEQUENCE, error)


def _wrap() -> None:
    from vllm.v1.executor.abstract import Executor

    own = Executor.initialize_from_config
    if hasattr(own, _WRAPPED):
        return

    @functools.wraps(own)
    def initialize_from_config(self: Any, kv_cache_configs: Any, *args: Any, **values: Any) -> Any:
        answer = own(self, kv_cache_configs, *args, **values)
        try:
            _told.clear()
            _told.update(_ask(self, kv_cache_configs))
        except Exception as error:  # noqa: BLE001 - as above.
            surprises.note("memory", _CONSEQUENCE, error)
        return answer

    setattr(initialize_from_config, _WRAPPED, True)
    Executor.initialize_from_config = initialize_from_config


def _ask(executor: Any, kv_cache_configs: Sequence[Any]) -> dict[str, Any]:
    config = executor.vllm_config
    if getattr(executor, "uses_ray", False) or getattr(config.parallel_config, "nnodes", 1) > 1:
        surprises.note("memory", _CONSEQUENCE, "workers may be on other machines")
        return {}
    workers = executor.collective_rpc(read_worker)
    summed = {name: sum(one[name] for one in workers) for name in _in_all(workers)}
    by_room = summed.pop(SIZED_BY_ROOM, 0) == len(workers)
    if not by_room and len(workers) > 1 and config.device_config.device_type == "cpu":
        summed.pop("limit_bytes", None)  # All of the machine's memory is there for each, but once.
    held = sum(tensor.size for one in kv_cache_configs for tensor in one.kv_cache_tensors)
    tokens = getattr(config.cache_config, "kv_cache_size_tokens", None)
    model = config.model_config
    found = {
        **summed,
        "kv_cache_memory_bytes": held,
        "kv_cache_size_tokens": tokens,
        "kv_cache_least_bytes": _least(held, tokens, model) if by_room else None,
        "max_model_len": model.max_model_len,
        "logits_bytes_per_token": 0 if model.runner_type == "pooling" else model.get_vocab_size() * _LOGIT_BYTES,
    }
    return {name: value for name, value in found.items() if value is not None}


def _least(held: int, tokens: int | None, model: Any) -> int:
    """The cache without which vLLM does not start: one request of the greatest length; 0: it shortens that instead."""
    if tokens is None or getattr(model, "original_max_model_len", None) == -1:
        return 0
    return min(held, held * int(model.max_model_len) // tokens)


def _in_all(workers: Sequence[dict[str, int]]) -> list[str]:
    return [name for name in workers[0] if all(name in one for one in workers)] if workers else []
