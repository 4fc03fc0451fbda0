"""Levers of vLLM's queue limits, which act in its server process, before a request comes to the engine.

Where the rules come from (vLLM 0.32, v1/engine/async_llm.py, config/scheduler.py):
- `AsyncLLM.check_admission` reads `scheduler_config.max_num_queued_reqs` and `max_num_queued_tokens` for each request,
  and counts anew what is in flight. None is no limit. Whom it turns away gets 503; who is in stays.
- The stat loggers are given the configuration that it reads: the same object.
- With several API servers each has limits of its own, and what all of them have in flight is only counted together
  where vLLM was started with `--max-num-queued-reqs`; so there they stay as started.
"""

import inspect
import sys
from typing import Any

from tailwright_vllm.knob_file import QUEUE_LIMITS
from tailwright_vllm.levers import Lever
from tailwright_vllm.surprises import described

_SERVER = "vllm.v1.engine.async_llm"


def queue_levers(vllm_config: Any, api_servers: int) -> "list[Lever]":
    """One for each; one that this vLLM lacks, or that is not safe to move, says why."""
    levers = []
    for name in QUEUE_LIMITS:
        try:
            lever = _lever(vllm_config.scheduler_config, name, api_servers)
        except Exception as error:  # noqa: BLE001 - another vLLM's server may be of any shape.
            why = f"this vLLM's server is another: {described(error)}"
            lever = Lever(name, lambda: None, lambda _: None, why)
        levers.append(lever)
    return levers


def _lever(config: Any, name: str, api_servers: int) -> Lever:
    def read() -> "int | None":
        value = getattr(config, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise TypeError(f"{name} is {value!r}")
        return value

    def move(value: "int | None") -> None:
        setattr(config, name, value)

    move(read())  # Raises here, at the start, where it is missing, of another kind, or frozen.
    if api_servers > 1:
        return Lever(name, read, move, f"each of vLLM's {api_servers} API servers has limits of its own")
    if name not in _read_for_each_request():
        raise AttributeError(f"check_admission() does not read {name}")
    return Lever(name, read, move)


def _read_for_each_request() -> "tuple[str, ...]":
    """Names of all that vLLM's own check reads; empty in a process that is no server."""
    check = getattr(getattr(sys.modules.get(_SERVER), "AsyncLLM", None), "check_admission", None)
    code = getattr(inspect.unwrap(check), "__code__", None) if callable(check) else None
    return () if code is None else tuple(code.co_names)
