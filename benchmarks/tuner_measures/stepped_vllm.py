"""One real vLLM engine over a clock that only its own steps move (`attribution_measures.vllm_worker`).

vLLM schedules, caches, drafts and computes; Tailwright's plugin moves its limits between two traffics, and they are
read back. Its HTTP server and tokenizing are left out.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agents.backends.vllm.doctor.installation import default_executable
from agents.backends.vllm.server_variables import sharing_cores
from benchmarks.engine_rivals.protocol import Worker
from benchmarks.engine_rivals.vllm_environment import common_environment
from benchmarks.twin_measures.recorded_engine import Served
from controlplane.contract.knobs import EngineConfig
from tuner.twin.simulated_engine import Arrival

DRAFTS = 4
STARTED: Mapping[str, object] = {
    "max_model_len": 1024,
    "max_num_seqs": 16,
    "max_num_batched_tokens": 2048,
    "block_size": 32,
    "num_gpu_blocks_override": 512,
}
"""Room for every configuration of the grid."""
LIVE = ("max_num_batched_tokens", "prefill_chunk_size", "max_num_seqs", "num_speculative_tokens")
END_S = 1e12
"""Of vLLM's clock: later than any traffic."""


class SteppedVllm:
    """Started once; each `serve` begins with an empty cache. A context: the engine ends with it."""

    def __init__(self, model: Path, folder: Path) -> None:
        python = str(default_executable().absolute().with_name("python"))
        variables = {**common_environment(python), **sharing_cores(1), "TAILWRIGHT_VLLM_DIR": ""}
        module = "benchmarks.attribution_measures.vllm_worker"
        self._worker = Worker("vllm", python, module, variables, sorted(os.sched_getaffinity(0)))
        self._revision = 0
        told = self._ask(
            "load", model_dir=str(model), folder=str(folder), started=dict(STARTED), drafts=DRAFTS, now_s=0.0
        )
        self.version = str(told["version"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.close()

    def serve(self, arrivals: Sequence[Arrival], config: EngineConfig) -> Served:
        """Raises AssertionError where vLLM runs other limits, or did not answer all. `steps` is not told."""
        self._revision += 1
        knobs = {name: value for name, value in config.knobs().items() if name in LIVE}
        began_s = float(self._ask("drop", revision=self._revision, knobs=knobs)["now_s"])
        asked = [
            {
                "at_s": began_s + one.at_s,
                "tokens": list(one.prompt()),
                "outputs": one.outputs,
                "temperature": 0.0,
                "seed": 1,
            }
            for one in arrivals
        ]
        answer = self._ask("window", until_s=END_S, asked=asked, pace=1.0, revision=self._revision, knobs=knobs)
        told = self._ask("effective", revision=self._revision)
        assert told["revision"] == self._revision and not told["error"], told
        assert {name: told["knobs"][name] for name in knobs} == knobs, (told["knobs"], knobs)
        ended = sorted((one for one in answer["events"] if one["kind"] == "finished"), key=lambda one: one["arrival"])
        assert len(ended) == len(arrivals), f"{len(ended)} of {len(arrivals)} were answered"
        return Served(
            ttft_s=[one["ttft"] for one in ended],
            tpot_s=[one["tpot"] for one in ended if one["tpot"] is not None],
            e2e_s=[one["e2e"] for one in ended],
        )

    def _ask(self, action: str, **arguments: Any) -> Any:
        try:
            return self._worker.ask(action, **arguments)
        except BaseException:
            self._worker.close()
            raise
