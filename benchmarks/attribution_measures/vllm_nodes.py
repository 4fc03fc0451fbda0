"""Nodes that are real vLLM engines with Tailwright's plugin, over a clock that only their own steps move.

vLLM schedules, caches, drafts and computes the bundled model and keeps its own statistics; the plugin makes events of
them and moves the limits (`vllm_worker.py`). As of embedded engines, a step takes `SLOWER` times its processor time.
What lies around the engine (its HTTP server, the socket that the agent reads) is left out.
"""

import heapq
import itertools
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from agents.backends.vllm.doctor.installation import default_executable
from agents.backends.vllm.server_variables import sharing_cores
from benchmarks.attribution_measures.engine_requests import EngineWorld, drawn_request
from benchmarks.attribution_measures.simulated_pool import Node, World
from benchmarks.engine_rivals.protocol import ROOT, Worker
from benchmarks.engine_rivals.vllm_environment import common_environment
from controlplane.contract.knobs import parse_config
from controlplane.contract.metrics import WINDOW_S

NAMES = ("gpu-1", "gpu-2")
MODEL_DIR = ROOT / "agents/models/tailwright-py-5m"
SLOWER = 20.0
BLOCK_TOKENS, BLOCKS = 32, 80
"""About 2,500 tokens of cache: three of the longest prompts, or a few dozen short ones."""
DRAFTS, MAX_MODEL_LEN = 4, 1536
STARTED: Mapping[str, object] = {
    "max_model_len": MAX_MODEL_LEN,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 512,
    "block_size": BLOCK_TOKENS,
    "num_gpu_blocks_override": BLOCKS,
}
KNOBS: Mapping[str, object] = {
    "max_num_batched_tokens": 512,
    "prefill_chunk_size": 0,
    "max_num_seqs": 8,
    "num_speculative_tokens": DRAFTS,
}
START_S = 1_900_000_000.0


def stepped_worker(name: str) -> Worker:
    """A process for one vLLM that is stepped by hand (`vllm_worker`), not loaded yet."""
    python = str(default_executable().absolute().with_name("python"))
    variables = {**common_environment(python), **sharing_cores(1), "TAILWRIGHT_VLLM_DIR": ""}
    cores = sorted(os.sched_getaffinity(0))
    return Worker(name, python, "benchmarks.attribution_measures.vllm_worker", variables, cores)


def check_limits(worker: Worker, revision: int, knobs: Mapping[str, Any]) -> None:
    """That the scheduler says it runs what was asked for. Raises AssertionError."""
    told = worker.ask("effective", revision=revision)
    assert told["revision"] == revision and not told["error"], told
    assert {name: told["knobs"][name] for name in knobs} == knobs, (told["knobs"], knobs)


class VllmEngines:
    """Started once, for all faults. A context: they end with it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ends = ExitStack()
        self._workers: dict[str, Worker] = {}

    def __enter__(self) -> Self:
        try:
            for name in NAMES:
                share = self._folder / name
                share.mkdir()
                worker = stepped_worker(name)
                self._ends.callback(worker.close)
                self._workers[name] = worker
                worker.send(
                    "load",
                    model_dir=str(MODEL_DIR),
                    folder=str(share),
                    started=dict(STARTED),
                    drafts=DRAFTS,
                    now_s=START_S,
                )
            for worker in self._workers.values():
                worker.receive()
        except BaseException:
            self._ends.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.close()

    def node(self, name: str, chance: np.random.Generator, now_s: float) -> "VllmNode":
        """Its engine has nothing to do, an empty cache and the usual knobs."""
        return VllmNode(name, chance, self._workers[name], now_s)


class VllmNode(Node):
    """One engine during one fault, which begins where its own clock is: `_shift_s` leads from that to the pool's."""

    def __init__(self, name: str, chance: np.random.Generator, worker: Worker, now_s: float) -> None:
        super().__init__(name, chance)
        self._worker = worker
        self._knobs: dict[str, Any] = {}
        self._plugins_revision = self._checked = 0
        self._want({})
        told = worker.ask("drop", revision=self._plugins_revision, knobs=self._knobs)
        self._shift_s = now_s - float(told["now_s"])

    def expect(self, start: float, world: World, arrivals: Sequence[float]) -> None:
        """Both engines are set to work before either is waited for."""
        assert isinstance(world, EngineWorld)
        self._want(world.knobs)
        _, factor = world.slow.get(("node", self.name), ((), 1.0))
        asked = []
        for at in arrivals:
            one = asdict(drawn_request(world.at(self.name), self.chance))
            one["outputs"] = min(one["outputs"], MAX_MODEL_LEN - len(one["tokens"]))
            asked.append({**one, "at_s": at - self._shift_s})
        self._worker.send(
            "window",
            until_s=start + WINDOW_S - self._shift_s,
            asked=asked,
            pace=SLOWER * factor,
            revision=self._plugins_revision,
            knobs=self._knobs,
        )

    def window(self, start: float, world: World, arrivals: Iterable[float]) -> list[dict[str, Any]]:
        end = start + WINDOW_S
        events = self._worker.receive()["events"]
        if events and self._plugins_revision != self._checked:
            self._checked = self._plugins_revision
            check_limits(self._worker, self._plugins_revision, self._knobs)
        for event in events:
            moved = {**event, "time": event["time"] + self._shift_s, "revision": world.revision}
            if "arrival" in moved:
                moved["arrival"] += self._shift_s
            self._put(moved)
        found = []
        while self.pending and self.pending[0][0] < end:
            self.seq += 1
            found.append({**heapq.heappop(self.pending)[2], "seq": self.seq})
        return found

    def _want(self, otherwise: Mapping[str, object]) -> None:
        """The plugin is given another number for each configuration, whatever the pool's revision is called."""
        wanted = parse_config({**KNOBS, **otherwise}).knobs()
        knobs = {name: wanted[name] for name in KNOBS}
        if knobs != self._knobs:
            self._knobs = knobs
            self._plugins_revision = next(_revisions)


_revisions = itertools.count(1)
