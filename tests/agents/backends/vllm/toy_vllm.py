"""A toy in place of the `vllm` package: the real plugin runs where vLLM is not installed. Standard library only.

It has the few modules that `tailwright_vllm` imports, with vLLM's names: schedulers whose limits are the attributes of
the real ones, and statistics of the same shape. It stands for vLLM in tests of processes and protocols only; what vLLM
itself does is tested on vLLM (tests/vllm/).
"""

import sys
import time
import types
from dataclasses import dataclass, field
from typing import Any


@dataclass
class PrefixCacheStats:
    requests: int = 0
    queries: int = 0
    hits: int = 0


@dataclass
class SpecDecodingStats:
    num_spec_tokens: int = 0
    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    num_accepted_tokens_per_pos: list[int] = field(default_factory=list)


@dataclass
class SchedulerStats:
    num_running_reqs: int = 0
    num_waiting_reqs: int = 0
    num_skipped_waiting_reqs: int = 0
    kv_cache_usage: float = 0.0
    prefix_cache_stats: PrefixCacheStats = field(default_factory=PrefixCacheStats)
    spec_decoding_stats: SpecDecodingStats | None = None


@dataclass
class RequestStateStats:
    """Wall clock: arrival. Monotonic: the others."""

    arrival_time: float
    num_generation_tokens: int = 0
    num_preemptions: int = 0
    queued_ts: float = 0.0
    scheduled_ts: float = 0.0
    first_token_ts: float = 0.0
    last_token_ts: float = 0.0
    first_token_latency: float = 0.0


@dataclass
class FinishedRequestStats:
    finish_reason: str
    request_id: str
    e2e_latency: float
    num_prompt_tokens: int
    num_generation_tokens: int
    max_tokens_param: int | None
    queued_time: float
    prefill_time: float
    inference_time: float
    decode_time: float
    mean_time_per_output_token: float
    num_preemptions: int = 0
    num_cached_tokens: int = 0


@dataclass
class PrefillStats:
    num_prompt_tokens: int
    num_cached_tokens: int = 0


@dataclass
class EngineCoreOutput:
    new_token_ids: list[int]
    prefill_stats: PrefillStats | None = None


class PromptTokenStats:
    def __init__(self) -> None:
        self.computed = self.cached_tokens = self.total = 0


class IterationStats:
    def __init__(self, timestamp: float | None = None) -> None:
        self.iteration_timestamp = time.time() if timestamp is None else timestamp
        self.num_generation_tokens = 0
        self.prompt_token_stats = PromptTokenStats()
        self.num_preempted_reqs = 0
        self.finished_requests: list[FinishedRequestStats] = []
        self.time_to_first_tokens_iter: list[float] = []
        self.inter_token_latencies_iter: list[float] = []

    def update_from_output(
        self,
        output: EngineCoreOutput,
        engine_core_timestamp: float,
        is_prefilling: bool,
        req_stats: RequestStateStats,
        lora_states: Any = None,
        lora_name: str | None = None,
    ) -> None:
        self.num_generation_tokens += len(output.new_token_ids)
        if is_prefilling:
            if output.prefill_stats is not None:
                self.prompt_token_stats.total += output.prefill_stats.num_prompt_tokens
                self.prompt_token_stats.computed += output.prefill_stats.num_prompt_tokens
            req_stats.first_token_latency = self.iteration_timestamp - req_stats.arrival_time
            req_stats.first_token_ts = engine_core_timestamp
            self.time_to_first_tokens_iter.append(req_stats.first_token_latency)
        else:
            self.inter_token_latencies_iter.append(engine_core_timestamp - req_stats.last_token_ts)
        req_stats.last_token_ts = engine_core_timestamp
        req_stats.num_generation_tokens += len(output.new_token_ids)

    def update_from_finished_request(
        self,
        finish_reason: str,
        request_id: str,
        num_prompt_tokens: int,
        max_tokens_param: int | None,
        req_stats: RequestStateStats,
        num_cached_tokens: int = 0,
    ) -> None:
        decode = req_stats.last_token_ts - req_stats.first_token_ts
        steps = req_stats.num_generation_tokens - 1
        self.finished_requests.append(
            FinishedRequestStats(
                finish_reason=finish_reason,
                request_id=request_id,
                e2e_latency=self.iteration_timestamp - req_stats.arrival_time,
                num_prompt_tokens=num_prompt_tokens,
                num_generation_tokens=req_stats.num_generation_tokens,
                max_tokens_param=max_tokens_param,
                queued_time=req_stats.scheduled_ts - req_stats.queued_ts,
                prefill_time=req_stats.first_token_ts - req_stats.scheduled_ts,
                inference_time=req_stats.last_token_ts - req_stats.scheduled_ts,
                decode_time=decode,
                mean_time_per_output_token=decode / steps if steps > 0 else 0.0,
                num_cached_tokens=num_cached_tokens,
            )
        )


class StatLoggerBase:
    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
        """vLLM's is abstract."""


@dataclass
class ToyRequest:
    """One request inside the scheduler. `emit` takes (tokens, finish reason or None)."""

    request_id: str
    prompt_tokens: int
    max_tokens: int
    stats: RequestStateStats
    emit: Any
    computed: int = 0
    aborted: bool = False


class Scheduler:
    """Token budget, prefill chunk, most requests and draft length: read anew in each step, as vLLM's does."""

    def __init__(self, vllm_config: Any, **values: Any) -> None:
        self.vllm_config = vllm_config
        self.scheduler_config = vllm_config.scheduler_config
        self.num_spec_tokens = vllm_config.num_speculative_tokens
        self.max_num_scheduled_tokens = self.scheduler_config.max_num_batched_tokens
        self.max_num_active_reqs = self.scheduler_config.max_num_seqs
        self.dynamic_sd_lookup: list[int] | None = None
        self.waiting: list[ToyRequest] = []
        self.running: list[ToyRequest] = []

    def schedule(self) -> list[tuple[ToyRequest, int, int]]:
        """(request, prompt tokens computed, output tokens made) of one step."""
        while self.waiting and len(self.running) < self.max_num_active_reqs:
            request = self.waiting.pop(0)
            request.stats.scheduled_ts = time.monotonic()
            self.running.append(request)
        budget = self.max_num_scheduled_tokens
        chunk = self.scheduler_config.long_prefill_token_threshold
        drafts = self.draft_length()
        work = []
        for request in self.running:
            if budget <= 0:
                break
            missing = request.prompt_tokens - request.computed
            if missing > 0:
                share = min(missing, budget, chunk if chunk and len(self.running) > 1 else missing)
                request.computed += share
                work.append((request, share, 0 if share < missing else 1))
            else:
                share = 1 + drafts
                work.append((request, 0, 1 + drafts // 2))
            budget -= share
        return work

    def draft_length(self) -> int:
        if not self.num_spec_tokens or not self.running:
            return 0
        lookup = self.dynamic_sd_lookup
        return self.num_spec_tokens if lookup is None else lookup[min(len(self.running), len(lookup) - 1)]


class AsyncScheduler(Scheduler):
    """vLLM's other class."""


class QueueOverflow(Exception):
    """vLLM answers 503."""


class AsyncLLM:
    """The server's: who comes is held against the limits as they are then."""

    def __init__(self, vllm_config: Any) -> None:
        self.scheduler_config = vllm_config.scheduler_config
        self.in_flight = self.queued_tokens = 0

    def check_admission(self, n: int = 1) -> None:
        most = self.scheduler_config.max_num_queued_reqs
        if most is not None and self.in_flight + n > most:
            raise QueueOverflow("max_num_queued_reqs")
        most = self.scheduler_config.max_num_queued_tokens
        if most is not None and self.queued_tokens >= most:
            raise QueueOverflow("max_num_queued_tokens")


def install() -> None:
    """Put the toy in the place of `vllm` in this process."""
    own = sys.modules[__name__]
    places = {
        "vllm": (),
        "vllm.v1": (),
        "vllm.v1.core": (),
        "vllm.v1.core.sched": (),
        "vllm.v1.core.sched.scheduler": ("Scheduler",),
        "vllm.v1.core.sched.async_scheduler": ("AsyncScheduler",),
        "vllm.v1.engine": (),
        "vllm.v1.engine.async_llm": ("AsyncLLM",),
        "vllm.v1.metrics": (),
        "vllm.v1.metrics.loggers": ("StatLoggerBase",),
        "vllm.v1.metrics.stats": ("IterationStats", "SchedulerStats", "RequestStateStats", "FinishedRequestStats"),
    }
    for name, members in places.items():
        module = types.ModuleType(name)
        for member in members:
            setattr(module, member, getattr(own, member))
        sys.modules[name] = module
    sys.modules["vllm"].__version__ = "0.32.0"  # type: ignore[attr-defined]
