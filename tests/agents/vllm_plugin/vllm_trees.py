"""Module trees in place of vLLM's, of the known shape and of others. They stand for what an unknown release may look
like; what a real vLLM does is tested on vLLM (tests/vllm/)."""

import importlib
from abc import ABC, abstractmethod
from types import SimpleNamespace
from typing import Any

from trimtab_vllm import installation

PLUGIN_MODULES = ("trimtab_vllm.stat_logger", "trimtab_vllm.scheduler")


class StatLoggerBase(ABC):
    @abstractmethod
    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None: ...

    @abstractmethod
    def record(self, scheduler_stats: Any, iteration_stats: Any) -> None: ...

    @abstractmethod
    def log_engine_initialized(self) -> None: ...

    def log(self) -> str:
        return "vLLM's own"


class Scheduler:
    """The attributes of vLLM 0.32's that the plugin moves."""

    def __init__(self, vllm_config: Any, **values: Any) -> None:
        self.vllm_config = vllm_config
        self.scheduler_config = vllm_config.scheduler_config
        self.max_num_scheduled_tokens = self.scheduler_config.max_num_batched_tokens
        self.max_num_active_reqs = self.max_num_running_reqs = self.scheduler_config.max_num_seqs
        self.num_spec_tokens = vllm_config.num_speculative_tokens
        self.dynamic_sd_lookup: list[int] | None = None
        self.running: list[Any] = []

    def schedule(self, throttle_prefills: bool = False) -> tuple[int, int, int]:
        config = self.scheduler_config
        return self.max_num_scheduled_tokens, config.long_prefill_token_threshold, self.max_num_active_reqs


class AsyncScheduler(Scheduler):
    pass


class IterationStats:
    """The lists and methods of vLLM 0.32's that the plugin reads and wraps."""

    def __init__(self, timestamp: float = 1000.0) -> None:
        self.iteration_timestamp = timestamp
        self.num_generation_tokens = self.num_preempted_reqs = 0
        self.prompt_token_stats = SimpleNamespace(computed=0)
        self.time_to_first_tokens_iter: list[float] = []
        self.inter_token_latencies_iter: list[float] = []
        self.finished_requests: list[Any] = []

    def update_from_output(
        self,
        output: Any,
        engine_core_timestamp: float,
        is_prefilling: bool,
        req_stats: Any,
        lora_states: Any = None,
        lora_name: Any = None,
    ) -> None:
        self.num_generation_tokens += len(output.new_token_ids)
        if is_prefilling:
            self.prompt_token_stats.computed += output.prefill_stats.num_prompt_tokens
            req_stats.first_token_latency = self.iteration_timestamp - req_stats.arrival_time
            req_stats.first_token_ts = engine_core_timestamp
            self.time_to_first_tokens_iter.append(req_stats.first_token_latency)
        else:
            self.inter_token_latencies_iter.append(engine_core_timestamp - req_stats.last_token_ts)
        req_stats.last_token_ts = engine_core_timestamp

    def update_from_finished_request(
        self,
        finish_reason: Any,
        request_id: str,
        num_prompt_tokens: int,
        max_tokens_param: Any,
        req_stats: Any,
        num_cached_tokens: int = 0,
    ) -> None:
        self.finished_requests.append(
            SimpleNamespace(
                finish_reason=finish_reason, request_id=request_id, e2e_latency=1.0, queued_time=0.1,
                num_prompt_tokens=num_prompt_tokens, num_generation_tokens=3, num_cached_tokens=num_cached_tokens,
                prefill_time=0.2, decode_time=0.5,
            )
        )  # fmt: skip


def config_of(drafts: int = 0, **scheduler: Any) -> SimpleNamespace:
    """A VllmConfig: 1024 tokens, 8 requests."""
    known: dict[str, Any] = dict(
        max_num_batched_tokens=1024, max_num_seqs=8, long_prefill_token_threshold=0, async_scheduling=False,
        enable_chunked_prefill=True, disable_chunked_mm_input=False, scheduler_cls=installation.SCHEDULER,
    )  # fmt: skip
    return SimpleNamespace(
        scheduler_config=SimpleNamespace(**{**known, **scheduler}),
        model_config=SimpleNamespace(served_model_name=["m"], quantization=None),
        parallel_config=SimpleNamespace(data_parallel_size=1, data_parallel_index=0),
        speculative_config=SimpleNamespace(method="ngram") if drafts else None,
        compilation_config=SimpleNamespace(cudagraph_mode=None),
        num_speculative_tokens=drafts,
    )


def request_stats() -> SimpleNamespace:
    return SimpleNamespace(
        arrival_time=999.0, queued_ts=1.0, scheduled_ts=2.0, first_token_ts=0.0, last_token_ts=0.0,
        first_token_latency=0.0,
    )  # fmt: skip


def scheduler_stats(running: int = 1, **others: Any) -> SimpleNamespace:
    known = dict(
        num_running_reqs=running, num_waiting_reqs=0, kv_cache_usage=0.5, spec_decoding_stats=None,
        prefix_cache_stats=SimpleNamespace(queries=0, hits=0),
    )  # fmt: skip
    return SimpleNamespace(**{**known, **others})


def load(name: str) -> Any:
    """A module of the plugin, imported on the tree that is in place now."""
    return importlib.import_module(name)
