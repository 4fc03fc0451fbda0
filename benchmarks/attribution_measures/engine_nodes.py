"""Nodes that are real embedded engines, over a clock that only their own steps move.

The bundled model is scheduled, cached, drafted and computed by the engine itself; each step takes `SLOWER` times the
processor time that it took, as on a machine so much slower, so that other work on this one changes little and minutes
are served in seconds. What lies around steps (HTTP, tokenizing, sending) takes what it usually does.
"""

import heapq
import itertools
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch

from agents.engine.core.event_log import EventLog
from agents.engine.core.step import StepEngine, TokenOutput
from agents.engine.options import EngineOptions
from agents.engine.request.params import SamplingParams
from agents.engine.request.timing import RequestClock
from agents.engine.scheduling.drafter import Drafter
from agents.engine.scheduling.request import FinishReason, Request
from agents.engine.scheduling.step_plan import StepPlan
from benchmarks.attribution_measures.engine_requests import EngineWorld, drawn_request
from benchmarks.attribution_measures.simulated_pool import Node, World
from controlplane.contract.knobs import parse_config
from controlplane.contract.metrics import WINDOW_S

NAMES = ("gpu-1", "gpu-2")
SLOWER = 15.0
KV_BYTES = 16 * 2**20
"""About 2,700 tokens: two long prompts, or a dozen others."""
KNOBS: Mapping[str, object] = {
    "max_num_batched_tokens": 512,
    "prefill_chunk_size": 256,
    "max_num_seqs": 8,
    "num_speculative_tokens": 3,
}
RECEIVE_S, TOKENIZE_S, SEND_S = 0.0005, 0.002, 0.001


class EngineNode(Node):
    """Its engine begins with an empty cache; `window` gives its events in the order of time."""

    def __init__(self, name: str, chance: np.random.Generator, engine: StepEngine, now_s: float) -> None:
        super().__init__(name, chance)
        self._engine, self._now_s = engine, now_s
        self._clocks: dict[Request, RequestClock] = {}
        self._marks: dict[Request, list[float]] = {}
        self._coming: list[tuple[float, int, Request]] = []
        scheduler = engine.scheduler
        for request in (*scheduler.running, *scheduler.waiting):
            scheduler.finish(request, FinishReason.ABORT)
        engine.pool.reset_cache()
        self._told = engine.log.newest

        def schedule(drafter: Drafter, _: float) -> StepPlan:
            return type(scheduler).schedule(scheduler, drafter, self._now_s)

        scheduler.schedule = schedule  # type: ignore[method-assign, assignment]

    def window(self, start: float, world: World, arrivals: Iterable[float]) -> list[dict[str, Any]]:
        assert isinstance(world, EngineWorld)
        engine, end = self._engine, start + WINDOW_S
        engine.scheduler.config, engine.revision = parse_config({**KNOBS, **world.knobs}), world.revision
        for at in arrivals:
            self.count += 1
            ready = float(at) + RECEIVE_S + TOKENIZE_S
            heapq.heappush(self._coming, (ready, self.count, self._made(float(at), world)))
        _, factor = world.slow.get(("node", self.name), ((), 1.0))
        with torch.inference_mode():
            while self._now_s < end:
                if not engine.scheduler.has_work:
                    if not self._coming or self._coming[0][0] >= end:
                        break
                    self._now_s = max(self._now_s, self._coming[0][0])
                while self._coming and self._coming[0][0] <= self._now_s:
                    assert not engine.scheduler.add(heapq.heappop(self._coming)[2])
                self._serve_step(SLOWER * factor)
        found = []
        while self.pending and self.pending[0][0] < end:
            self.seq += 1
            found.append({**heapq.heappop(self.pending)[2], "seq": self.seq})
        return found

    def _made(self, at: float, world: EngineWorld) -> Request:
        asked = drawn_request(world.at(self.name), self.chance)
        params = SamplingParams(asked.outputs, asked.temperature, seed=asked.seed)
        request = Request(f"{self.name}-{self.count}", asked.tokens, params, asked.tenant, arrived_at=at)
        clock = RequestClock(arrived=at, arrived_unix=at, received=at + RECEIVE_S, tokenize_started=at + RECEIVE_S)
        clock.tokenized = clock.submitted = at + RECEIVE_S + TOKENIZE_S
        self._clocks[request], self._marks[request] = clock, []
        return request

    def _serve_step(self, slower: float) -> None:
        engine = self._engine
        began = time.thread_time()
        outputs = engine.step()
        took_s = slower * (time.thread_time() - began)
        self._now_s += took_s
        for event in engine.log.after(self._told):
            if event["kind"] == "step":
                self._put({**event, **_parts(event, took_s), "time": self._now_s})
        self._told = engine.log.newest
        for output in outputs:
            self._take(output)

    def _take(self, output: TokenOutput) -> None:
        request = output.request
        clock, marks, told = self._clocks[request], self._marks[request], self._told_of(request)
        if output.tokens:
            clock.scheduled = request.scheduled_at
            if not marks:
                clock.first_token = self._now_s
                clock.first_sent = self._now_s + RECEIVE_S
                self._put({"kind": "first_token", "time": clock.first_sent, **told, "ttft": clock.ttft})
            marks.append(self._now_s)
            clock.last_token = self._now_s
        if output.finish_reason is None:
            return
        clock.ended = self._now_s + SEND_S
        gaps = [after - before for before, after in itertools.pairwise(marks)]
        self._put({"kind": "gaps", "time": self._now_s, **told, "gaps": gaps, "tokens": request.num_outputs - 1})
        self._put(
            {
                **{"kind": "finished", "time": clock.ended, **told, "request_id": request.request_id},
                **{"finish_reason": output.finish_reason.value, "arrival": clock.arrived_unix},
                **{"output_tokens": request.num_outputs, "block_size": 0, "block_hashes": []},
                **{"ttft": clock.ttft, "tpot": clock.tpot(request.num_outputs), **clock.parts()},
            }
        )
        del self._clocks[request], self._marks[request]

    def _told_of(self, request: Request) -> dict[str, Any]:
        return {
            **{"revision": self._engine.revision, "prompt_tokens": request.prompt_length},
            **{"cached_tokens": request.cached_tokens, "tenant": request.tenant},
        }


PARTS = ("schedule", "draft", "forward", "sample", "commit")


def _parts(event: Mapping[str, Any], took_s: float) -> dict[str, float]:
    """A step's parts, stretched to the time that it takes."""
    parts = {part: float(event[part]) for part in PARTS if part in event}
    whole = sum(parts.values())
    return {part: took_s * seconds / whole for part, seconds in parts.items()} if whole else {}


_engines: dict[str, StepEngine] = {}


def engine_node(name: str, chance: np.random.Generator, now_s: float) -> EngineNode:
    """One engine a node, loaded once."""
    if name not in _engines:
        torch.set_num_threads(1)
        made = EngineOptions(config=parse_config(KNOBS), kv_cache_memory_bytes=KV_BYTES)
        _engines[name] = StepEngine(made, EventLog())
        with torch.inference_mode():
            _engines[name].warm_up()
    return EngineNode(name, chance, _engines[name], now_s)
