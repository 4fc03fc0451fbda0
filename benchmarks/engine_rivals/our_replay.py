"""Requests that arrive by the clock, served by one of our engines in process: for what HTTP would only blur."""

import time
from typing import Any

import torch

from agents.engine.core.step import StepEngine
from agents.engine.request.params import SamplingParams
from agents.engine.scheduling.request import FinishReason, Request
from benchmarks.engine_rivals import protocol
from benchmarks.engine_rivals.our_engines import ENGINES

_LONGEST_NAP_S = 0.001


def replay(
    name: str,
    arrivals: list[dict[str, Any]],
    static_batch: int = 0,
    one_by_one: bool = False,
    forget_between: bool = False,
) -> dict[str, Any]:
    """Serve arrivals {at_s, prompt, max_tokens, tag} and tell each one's story.

    static_batch: take up so many at once and none before the last of them has ended (0: continuous). one_by_one: each
    waits for the one before it. forget_between: nothing cached is left when a request begins.
    Returns seconds: {"requests": [{tag, ttft_s, e2e_s, gaps_s, cached_tokens}], "wall_s"}; ttft from the arrival.
    """
    engine = ENGINES[name]
    engine.pool.reset_cache()
    requests = [
        Request(str(number), one["prompt"], SamplingParams(one["max_tokens"])) for number, one in enumerate(arrivals)
    ]
    due = sorted(range(len(arrivals)), key=lambda number: float(arrivals[number]["at_s"]))
    at_once = static_batch or (1 if one_by_one else 0)
    marks: dict[Request, list[float]] = {request: [] for request in requests}
    arrived: dict[Request, float] = {}
    began = time.perf_counter()
    with torch.inference_mode():
        while due or engine.scheduler.has_work:
            if not (at_once and engine.scheduler.has_work):
                if forget_between and due:
                    engine.pool.reset_cache()
                for number in _take_due(due, arrivals, time.perf_counter() - began, at_once):
                    request = requests[number]
                    planned = time.perf_counter() if one_by_one else began + float(arrivals[number]["at_s"])
                    arrived[request] = request.arrived_at = planned
                    if engine.scheduler.add(request):
                        raise RuntimeError("a request was refused")
            if not engine.scheduler.has_work:
                time.sleep(_LONGEST_NAP_S)
                continue
            _step(engine, marks)
    return {
        "wall_s": time.perf_counter() - began,
        "requests": [
            {
                "tag": one.get("tag", ""),
                "ttft_s": marks[request][0] - arrived[request],
                "e2e_s": marks[request][-1] - arrived[request],
                "gaps_s": [after - before for before, after in zip(marks[request], marks[request][1:], strict=False)],
                "cached_tokens": request.cached_tokens,
            }
            for one, request in zip(arrivals, requests, strict=True)
        ],
    }


def _take_due(due: list[int], arrivals: list[dict[str, Any]], now_s: float, at_most: int) -> list[int]:
    """Remove and return those that have arrived, oldest first."""
    ready = 0
    while ready < len(due) and float(arrivals[due[ready]]["at_s"]) <= now_s and not (at_most and ready == at_most):
        ready += 1
    taken = due[:ready]
    del due[:ready]
    return taken


def _step(engine: StepEngine, marks: dict[Request, list[float]]) -> None:
    for output in engine.step():
        if output.finish_reason not in (None, FinishReason.LENGTH):
            raise RuntimeError(f"a request ended with {output.finish_reason}: {output.failure}")
        if output.tokens:
            marks[output.request].append(output.committed_at)


HANDLERS: dict[str, protocol.Handler] = {"replay": replay}
