"""What the engine's own timing and event log cost, in CPU time of the stepping thread."""

import time
from collections.abc import Mapping
from typing import Any

import torch

from agents.engine.core.event_log import EventLog
from agents.engine.core.step import StepEngine
from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.request import Request
from benchmarks.engine_rivals import protocol
from benchmarks.engine_rivals.our_engines import ENGINES

_BLOCK_STEPS = 8
_SILENCED = ("_report", "flush_gaps")
"""The engine's methods that do nothing but observe."""


class _SilentLog(EventLog):
    def append(self, event: Mapping[str, Any]) -> None:
        pass


def overhead(name: str, prompts: list[list[int]], new_tokens: int) -> dict[str, Any]:
    """Decode a batch to its end, observation on and off in alternate blocks of eight steps.

    Returns cpu seconds a step of each block, both ways, and direct_s: the CPU seconds a step spent inside the observing
    calls themselves, timed around them in a run of its own (its clock reads included, so an upper bound).
    """
    engine = ENGINES[name]
    on, off = _alternate(engine, _add(engine, prompts, new_tokens))
    _add(engine, prompts, new_tokens)
    return {"on_s": on, "off_s": off, "direct_s": _direct(engine)}


def _add(engine: StepEngine, prompts: list[list[int]], new_tokens: int) -> list[Request]:
    """Requests that have all begun to decode."""
    requests = [Request(str(number), prompt, SamplingParams(new_tokens)) for number, prompt in enumerate(prompts)]
    with torch.inference_mode():
        for request in requests:
            engine.scheduler.add(request)
        while any(not request.num_outputs for request in requests):
            engine.step()
    return requests


def _alternate(engine: StepEngine, requests: list[Request]) -> tuple[list[float], list[float]]:
    costs: tuple[list[float], list[float]] = ([], [])
    turn = 0
    with torch.inference_mode():
        while min(request.params.max_tokens - request.num_outputs for request in requests) > _BLOCK_STEPS:
            silent = turn % 2
            if silent:
                _silence(engine)
            began = time.thread_time()
            for _ in range(_BLOCK_STEPS):
                engine.step()
            costs[silent].append((time.thread_time() - began) / _BLOCK_STEPS)
            if silent:
                _restore(engine)
            turn += 1
        while engine.scheduler.has_work:
            engine.step()
    return costs


def _silence(engine: StepEngine) -> None:
    for method in _SILENCED:
        engine.__dict__[method] = lambda *_, **__: None
    engine.__dict__["_loud_log"] = engine.log
    engine.log = _SilentLog(1)


def _restore(engine: StepEngine) -> None:
    for method in _SILENCED:
        engine.__dict__.pop(method, None)
    engine.log = engine.__dict__.pop("_loud_log")


def _direct(engine: StepEngine) -> float:
    """Serve what is running to its end; seconds a step inside the observing calls, the clock's own cost taken off."""
    spent = 0.0
    calls = steps = 0

    def timed(method: Any) -> Any:
        def run(*arguments: Any, **named: Any) -> Any:
            nonlocal spent, calls
            began = time.perf_counter()
            try:
                return method(*arguments, **named)
            finally:
                spent += time.perf_counter() - began
                calls += 1

        return run

    # `_report` flushes gaps itself; what else ends a request is not part of a step.
    engine.__dict__["_report"] = timed(engine._report)
    with torch.inference_mode():
        while engine.scheduler.has_work:
            engine.step()
            steps += 1
    del engine.__dict__["_report"]
    return (spent - calls * _empty_call()) / steps


def _empty_call() -> float:
    """Seconds that a timed call of nothing shows."""
    pairs = 10_000
    spent = 0.0
    for _ in range(pairs):
        began = time.perf_counter()
        spent += time.perf_counter() - began
    return spent / pairs


HANDLERS: dict[str, protocol.Handler] = {"overhead": overhead}
