"""Module trees in place of vLLM's, of the known shape and of others. They stand for what an unknown release may look
like; what a real vLLM does is tested on vLLM (tests/vllm/)."""

import importlib
from abc import ABC, abstractmethod
from types import SimpleNamespace
from typing import Any, Self

from tailwright_vllm import installation

from tests.agents.backends.vllm import toy_vllm

PLUGIN_MODULES = ("tailwright_vllm.stat_logger", "tailwright_vllm.scheduler")


class StatLoggerBase(ABC):
    @abstractmethod
    def __init__(self, vllm_config: Any, engine_index: int = 0) -> None: ...

    @abstractmethod
    def record(self, scheduler_stats: Any, iteration_stats: Any) -> None: ...

    @abstractmethod
    def log_engine_initialized(self) -> None: ...

    def log(self) -> str:
        return "vLLM's own"


class Planned(tuple[int, int, int]):
    """A step's limits, in the place of its work: budget, chunk and seats. `scheduled`: tokens by request."""

    def __new__(cls, limits: tuple[int, int, int] = (0, 0, 0), scheduled: dict[str, int] | None = None) -> Self:
        made = super().__new__(cls, limits)
        made.num_scheduled_tokens = scheduled or {}
        made.total_num_scheduled_tokens = sum(made.num_scheduled_tokens.values())
        return made

    num_scheduled_tokens: dict[str, int]
    total_num_scheduled_tokens: int


class Scheduler:
    """The attributes of vLLM 0.32's that the plugin moves and reads."""

    def __init__(self, vllm_config: Any, **values: Any) -> None:
        self.vllm_config = vllm_config
        self.scheduler_config = vllm_config.scheduler_config
        self.max_num_scheduled_tokens = self.scheduler_config.max_num_batched_tokens
        self.max_num_active_reqs = self.max_num_running_reqs = self.scheduler_config.max_num_seqs
        self.num_spec_tokens = vllm_config.num_speculative_tokens
        self.dynamic_sd_lookup: list[int] | None = None
        self.running: list[Any] = []
        self.waiting: list[Any] = []
        self.deferred_waiting: set[Any] = set()
        self.kv_cache_manager = KVCacheManager()

    def get_request_counts(self) -> tuple[int, int]:
        return len(self.running), len(self.waiting)

    def schedule(self, throttle_prefills: bool = False) -> Planned:
        config = self.scheduler_config
        return Planned((self.max_num_scheduled_tokens, config.long_prefill_token_threshold, self.max_num_active_reqs))

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> dict[int, Any]:
        return {0: SimpleNamespace(scheduler_stats=model_runner_output)}


class KVCacheManager:
    """Has as many blocks as `free` says."""

    free = 100

    def allocate_slots(self, request: Any, num_new_tokens: int) -> Any:
        return [request] if num_new_tokens <= self.free else None


class AsyncScheduler(Scheduler):
    pass


class Executor:
    """Its workers are in this process, as those of vLLM's UniProcExecutor."""

    def __init__(self, vllm_config: Any, workers: list[Any]) -> None:
        self.vllm_config, self.workers = vllm_config, workers
        self.made: list[Any] = []
        self.asked = 0

    def initialize_from_config(self, kv_cache_configs: list[Any]) -> None:
        self.made += kv_cache_configs

    def collective_rpc(self, method: Any) -> list[Any]:
        self.asked += 1
        return [method(worker) for worker in self.workers]


class IterationStats(toy_vllm.IterationStats):
    """An iteration at a known time."""

    def __init__(self, timestamp: float = 1000.0) -> None:
        super().__init__(timestamp)


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


def request_stats() -> toy_vllm.RequestStateStats:
    return toy_vllm.RequestStateStats(arrival_time=999.0, queued_ts=1.0, scheduled_ts=2.0)


def scheduler_stats(running: int = 1, **others: Any) -> SimpleNamespace:
    known = dict(
        num_running_reqs=running, num_waiting_reqs=0, kv_cache_usage=0.5, spec_decoding_stats=None,
        prefix_cache_stats=SimpleNamespace(queries=0, hits=0),
    )  # fmt: skip
    return SimpleNamespace(**{**known, **others})


def load(name: str) -> Any:
    """A module of the plugin, imported on the tree that is in place now."""
    return importlib.import_module(name)
