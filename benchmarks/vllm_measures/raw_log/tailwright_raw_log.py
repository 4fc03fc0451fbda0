"""vLLM's own latency values as it has them, one JSON line for each iteration: the truth that others are measured by.

It runs inside vLLM and shares no line with the plugin that is measured. With the folder of this file on PYTHONPATH
(the dist-info beside it holds the entry point) and VLLM_RAW_LOG naming a file:

    {"time": Unix seconds of the iteration, "ttft": [s, ...], "itl": [s, ...], "finished": [{"request_id", "reason",
     "e2e", "queue", "prefill", "decode", "inference" (all seconds), "prompt_tokens", "cached_tokens",
     "output_tokens"}, ...]}

Lines are written while a file named VLLM_RAW_LOG + ".off" is absent, and each is flushed. Iterations without any value
write none. Without the variable it does nothing.
"""

import json
import os
from typing import Any

from vllm.v1.metrics.loggers import StatLoggerBase

VARIABLE = "VLLM_RAW_LOG"


class RawLog(StatLoggerBase):
    """One per engine; they append to the same file."""

    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
        path = os.environ.get(VARIABLE)
        self._off = f"{path}.off"
        self._file = open(path, "a", encoding="utf-8", buffering=1) if path else None  # noqa: SIM115

    def record(
        self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
    ) -> None:
        if self._file is None or iteration_stats is None or os.path.exists(self._off):
            return
        line = {
            "time": iteration_stats.iteration_timestamp,
            "ttft": list(iteration_stats.time_to_first_tokens_iter),
            "itl": list(iteration_stats.inter_token_latencies_iter),
            "finished": [
                {
                    "request_id": one.request_id,
                    "reason": str(one.finish_reason),
                    "e2e": one.e2e_latency,
                    "queue": one.queued_time,
                    "prefill": one.prefill_time,
                    "decode": one.decode_time,
                    "inference": one.inference_time,
                    "prompt_tokens": one.num_prompt_tokens,
                    "cached_tokens": one.num_cached_tokens,
                    "output_tokens": one.num_generation_tokens,
                }
                for one in iteration_stats.finished_requests
            ],
        }
        if line["ttft"] or line["itl"] or line["finished"]:
            self._file.write(json.dumps(line) + "\n")

    def log_engine_initialized(self) -> None:
        pass
