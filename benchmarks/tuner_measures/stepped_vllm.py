"""One real vLLM engine over a clock that only its own steps move (`attribution_measures.vllm_worker`).

vLLM schedules, caches, drafts and computes; Tailwright's plugin moves its limits between two traffics, and they are
read back. Its HTTP server and tokenizing are left out.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.attribution_measures.vllm_nodes import check_limits, stepped_worker
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
        self._worker = stepped_worker("vllm")
        self._revision = 0
        try:
            told = self._worker.ask(
                "load", model_dir=str(model), folder=str(folder), started=dict(STARTED), drafts=DRAFTS, now_s=0.0
            )
        except BaseException:
            self._worker.close()
            raise
        self.version = str(told["version"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._worker.close()

    def serve(self, arrivals: Sequence[Arrival], config: EngineConfig) -> Served:
        """As `events`, by request in order of arrival. `steps` is not told."""
        ended = sorted(
            (one for one in self.events(arrivals, config) if one["kind"] == "finished"), key=lambda one: one["arrival"]
        )
        return Served(
            ttft_s=[one["ttft"] for one in ended],
            tpot_s=[one["tpot"] for one in ended if one["tpot"] is not None],
            e2e_s=[one["e2e"] for one in ended],
        )

    def events(self, arrivals: Sequence[Arrival], config: EngineConfig) -> list[dict[str, Any]]:
        """What the plugin told, times in seconds since the first could arrive. Raises AssertionError where vLLM runs
        other limits, or did not answer all."""
        self._revision += 1
        knobs = {name: value for name, value in config.knobs().items() if name in LIVE}
        began_s = float(self._worker.ask("drop", revision=self._revision, knobs=knobs)["now_s"])
        asked = [
            {"at_s": began_s + one.at_s, "tokens": list(one.prompt()), "outputs": one.outputs, "temperature": 0.0}
            for one in arrivals
        ]
        answer = self._worker.ask("window", until_s=END_S, asked=asked, pace=1.0, revision=self._revision, knobs=knobs)
        check_limits(self._worker, self._revision, knobs)
        events = [
            {**one, **{name: one[name] - began_s for name in ("time", "arrival") if name in one}}
            for one in answer["events"]
        ]
        ended = sum(one["kind"] == "finished" for one in events)
        assert ended == len(arrivals), f"{ended} of {len(arrivals)} were answered"
        return events
