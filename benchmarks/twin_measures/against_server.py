"""The product's own forecast beside a real vLLM server in real time, n-gram drafts on.

A server (bundled model, the plugin) serves a trace while an agent tells a service of it; the service is asked for a
forecast of the same traffic under other configurations, the whole way by HTTP. Then the server serves the trace under
each, its limits moved live and its prefix cache emptied, and the plugin says what became of the requests. Before each
it serves the trace as it is: a machine's pace wanders, so that forecasts are told at that pace, too.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np

from agents.backends.vllm.doctor.installation import default_executable
from agents.backends.vllm.plugin_link import PluginLink
from benchmarks.engine_rivals.load_generator import sent_beside
from benchmarks.engine_rivals.servers import HOST, MODEL
from benchmarks.twin_measures.against_engine import Compared, arrivals_of, trace_of
from benchmarks.vllm_measures.knobs import differences
from benchmarks.vllm_measures.plane import POOL, Plane, attached, is_up
from benchmarks.vllm_measures.processes import Nursery
from benchmarks.vllm_measures.vllm_server import DRAFTS, MAX_NUM_BATCHED_TOKENS, MAX_NUM_SEQS, Recipe, VllmServer
from controlplane.contract.knobs import parse_config
from controlplane.contract.metrics import TPOT, TTFT
from controlplane.contract.planning.whatif import Forecasted, WhatIf, WhatIfCreate
from tuner.twin.answer.forecast_error import key
from tuner.twin.forecast import WARM_UP

CALIBRATION: Mapping[str, Any] = {
    "max_num_batched_tokens": MAX_NUM_BATCHED_TOKENS,
    "max_num_seqs": MAX_NUM_SEQS,
    "num_speculative_tokens": DRAFTS,
}
"""What the server is started with."""
OTHERS: Sequence[Mapping[str, Any]] = (
    {"max_num_seqs": 2},
    {"max_num_batched_tokens": 128},
    {"prefill_chunk_size": 64},
    {"num_speculative_tokens": 2},
)
WANTED = ((TTFT.short, 0.5), (TTFT.short, 0.95), (TPOT.short, 0.5))
NAMES = [key(metric, q) for metric, q in WANTED]
NODE = "gpu-1"
_WARM_UP_REQUESTS = 20
_LIMIT_S = 60.0
_SETTLE_S = 2.0
_TOLD_S = 12.0
"""Two windows: what was served has been told by then."""


@dataclass(frozen=True)
class _Server:
    server: VllmServer
    plans: Sequence[Mapping[str, Any]]

    def serve(self, plans: Sequence[Mapping[str, Any]]) -> float:
        """All of them, by the clock, on an empty cache; when it began, Unix seconds. Raises RuntimeError where one
        was not answered."""
        httpx.post(f"{self.server.url}/reset_prefix_cache", timeout=_LIMIT_S, trust_env=False).raise_for_status()
        plan = {"host": HOST, "port": self.server.port, "model": MODEL, "timeout_s": 300, "requests": plans}
        began_s = time.time()
        told = sent_beside(plan)
        failed = [one["error"] for one in told["requests"] if one["error"]]
        if failed:
            raise RuntimeError(f"{len(failed)} of {len(plans)} requests failed: {failed[0]}")
        return began_s

    def figures(self, revision: int, knobs: Mapping[str, Any]) -> dict[str, float]:
        """Of the trace under this configuration; what a forecast does not score is left out."""
        link = PluginLink(_share(self.server))
        wanted = parse_config({**CALIBRATION, **knobs}).knobs()
        wanted.pop("quantization")
        asked_s = time.time()
        link.write_knobs(revision, wanted, asked_s)
        told = asyncio.run(link.settled(asked_s, asked_s, _LIMIT_S))
        if wrong := differences(told, wanted):
            raise RuntimeError(f"other limits than asked for are in force: {wrong}")
        began_s = self.serve(self.plans)
        since_s = began_s + WARM_UP * self.plans[-1]["at_s"]
        ended = asyncio.run(_finished(link, since_s))
        return {
            key(metric, q): float(np.quantile([one[metric] for one in ended if one[metric] is not None], q))
            for metric, q in WANTED
        }


def compare(
    model: Path, folder: Path, requests: int, rate: float, seed: int, rounds: int
) -> Iterator[tuple[list[Compared], list[Compared]]]:
    """Of each round, the pool as it is first; then the others at the pace that the server had beside them. Each round
    has a server, a service and an agent of its own. requests: so many that they last longer than a minute and a half,
    or there is too little to fit to."""
    plans = [
        {"at_s": one.at_s, "prompt": one.prompt(), "max_tokens": one.outputs}
        for one in arrivals_of(trace_of(seed, requests, rate))
    ]
    python = default_executable().absolute().with_name("python")
    for number in range(rounds):
        with contextlib.closing(Nursery(folder / str(number))) as nursery:
            nursery.folder.mkdir()
            server = VllmServer(nursery, _Resettable(str(python), model, 1), "server", tailwright=True, drafts=True)
            server.wait_healthy()
            served = _Server(server, plans)
            served.serve([{**one, "at_s": 0.2 * place} for place, one in enumerate(plans[-_WARM_UP_REQUESTS:])])
            told = _forecast(nursery, served, python)
            beside, others, paced = [], [], []
            for place, (knobs, forecast) in enumerate(zip(OTHERS, told.others, strict=True)):
                beside.append(served.figures(1000 + 2 * place, {}))
                measured = served.figures(1001 + 2 * place, knobs)
                pace = {name: beside[-1][name] / told.as_is.quantiles[name].value_s for name in NAMES}
                others.append(_compared(knobs, measured, forecast.quantiles, dict.fromkeys(NAMES, 1.0)))
                paced.append(_compared(knobs, measured, forecast.quantiles, pace))
            as_is = {name: median(one[name] for one in beside) for name in NAMES}
            yield [_compared({}, as_is, told.as_is.quantiles, dict.fromkeys(NAMES, 1.0)), *others], paced


def _compared(
    knobs: Mapping[str, Any],
    measured: dict[str, float],
    told: Mapping[str, Forecasted],
    pace: Mapping[str, float],
) -> Compared:
    quantiles = {
        name: (pace[name] * told[name].value_s, pace[name] * told[name].low_s, pace[name] * told[name].high_s)
        for name in NAMES
    }
    return Compared(parse_config({**CALIBRATION, **knobs}), measured, quantiles)


class _Resettable(Recipe):
    """Its prefix cache may be emptied over HTTP."""

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "VLLM_SERVER_DEV_MODE": "1"}


def _forecast(nursery: Nursery, served: _Server, python: Path) -> WhatIf:
    """What the service says when it has seen the trace. Its agent ends then: the plugin has one reader."""
    plane = Plane(nursery, ("--vllm-python", str(python)))
    flags = attached(served.server.url, served.server.share)
    agent = plane.agent(NODE, {**flags, "role": "serving"})
    plane.await_node(NODE, agent, is_up)
    began_s = served.serve(served.plans)
    time.sleep(_TOLD_S)
    asked = WhatIfCreate(pool=POOL, window_s=time.time() - began_s, others=[dict(one) for one in OTHERS])
    told = plane.client.what_if(asked)
    nursery.stop(agent)
    return told


async def _finished(link: PluginLink, since_s: float) -> list[Mapping[str, Any]]:
    """Requests that came since then, and have ended."""
    found: list[Mapping[str, Any]] = []
    stream = link.events(None)
    with contextlib.suppress(TimeoutError):  # Where nothing new comes, this is all.
        async with asyncio.timeout(_SETTLE_S):
            async for event in stream:
                if event["kind"] == "finished" and event["arrival"] >= since_s:
                    found.append(event)
    await stream.aclose()
    return found


def _share(server: VllmServer) -> Path:
    assert server.share is not None
    return server.share
