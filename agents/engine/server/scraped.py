"""The figures of /metrics that are read when somebody asks: what parts of the engine hold or count anyway."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agents.engine.core.engine import Engine
from agents.engine.scheduling.request import FinishReason
from controlplane.contract.step_limits import StepLimit

STEP_PARTS = ("schedule", "draft", "forward", "attention", "sample", "commit")

_REFUSALS = {"queue_full": "max_num_queued_reqs", "queued_tokens": "max_num_queued_tokens"}
"""vLLM's words for reasons it knows too."""

Labels = tuple[str, ...]


@dataclass
class Totals:
    """Counted from the event log."""

    steps: int = 0
    part_seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STEP_PARTS, 0.0))
    preemptions: int = 0
    flops: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    limits: dict[str, int] = field(default_factory=lambda: {limit.value: 0 for limit in StepLimit})
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    finished: dict[str, int] = field(default_factory=lambda: {reason.value: 0 for reason in FinishReason})


class Scraped(Collector):
    """labels: the values of model_name and engine."""

    def __init__(self, engine: Engine, totals: Totals, refusals: Mapping[str, int], labels: Labels) -> None:
        self._engine, self._totals, self._refusals, self._labels = engine, totals, refusals, labels

    def collect(self) -> Iterator[Metric]:
        yield from self._requests()
        yield from self._cache()
        yield from self._tokens()
        yield from self._speculation()
        yield from self._steps()

    def _requests(self) -> Iterator[Metric]:
        scheduler = self._engine.steps.scheduler
        waiting = len(scheduler.waiting)
        deferred = 0 if scheduler.admitting else waiting  # New weights are coming: nobody new starts.
        yield self._gauge("num_requests_running", "Requests running.", {(): len(scheduler.running)})
        yield self._gauge("num_requests_waiting", "Requests waiting.", {(): waiting})
        yield self._gauge(
            "num_requests_waiting_by_reason",
            "Requests waiting: for capacity, or deferred because the engine changes its weights.",
            {("capacity",): waiting - deferred, ("deferred",): deferred},
            "reason",
        )
        finished: dict[Labels, int] = {(reason,): count for reason, count in list(self._totals.finished.items())}
        yield self._counter("request_success", "Finished requests.", finished, "finished_reason")
        yield self._counter("num_preemptions", "Requests preempted and recomputed.", {(): self._totals.preemptions})
        refused = CounterMetricFamily(
            "vllm:admission_rejections", "Requests refused or given up by a limit.", labels=["model_name", "reason"]
        )
        counts = dict.fromkeys(_REFUSALS.values(), 0)
        for reason, count in list(self._refusals.items()):
            counts[_REFUSALS.get(reason, reason)] = count
        for reason, count in counts.items():
            refused.add_metric([self._labels[0], reason], count)
        yield refused

    def _cache(self) -> Iterator[Metric]:
        steps = self._engine.steps
        stats = steps.scheduler.cache.stats()
        yield self._gauge("kv_cache_usage_perc", "Share of KV-cache blocks in use, 0 to 1.", {(): stats.usage})
        yield self._counter("prefix_cache_queries", "Prompt tokens looked up.", {(): stats.queried_tokens})
        yield self._counter("prefix_cache_hits", "Prompt tokens found in the cache.", {(): stats.hit_tokens})
        yield self._counter("kv_cache_evictions", "Cached blocks given up.", {(): stats.evictions}, prefix="tailwright")
        info = {
            "block_size": str(steps.pool.block_size),
            "num_gpu_blocks": str(stats.num_blocks),
            "enable_prefix_caching": str(steps.scheduler.cache.prefix_caching),
            "cache_dtype": self._engine.options.dtype,
        }
        yield self._gauge("cache_config_info", "The KV cache's configuration.", {tuple(info.values()): 1}, *info)

    def _tokens(self) -> Iterator[Metric]:
        totals = self._totals
        yield self._counter("prompt_tokens", "Prompt tokens of finished requests.", {(): totals.prompt_tokens})
        yield self._counter(
            "prompt_tokens_cached", "Those of them that the prefix cache held.", {(): totals.cached_tokens}
        )
        yield self._counter("generation_tokens", "Output tokens of finished requests.", {(): totals.output_tokens})

    def _speculation(self) -> Iterator[Metric]:
        stats = self._engine.steps.speculator.stats
        yield self._counter("spec_decode_num_drafts", "Drafts verified.", {(): stats.drafts})
        yield self._counter("spec_decode_num_draft_tokens", "Draft tokens proposed.", {(): stats.draft_tokens})
        yield self._counter("spec_decode_num_accepted_tokens", "Draft tokens accepted.", {(): stats.accepted_tokens})
        places: dict[Labels, int] = {
            (str(place),): count for place, count in enumerate(list(stats.accepted_per_position))
        }
        yield self._counter(
            "spec_decode_num_accepted_tokens_per_pos", "Draft tokens accepted, by position.", places, "position"
        )

    def _steps(self) -> Iterator[Metric]:
        totals = self._totals
        yield self._counter("estimated_flops_per_gpu", "FLOPs of steps, by the model's sizes.", {(): totals.flops})
        yield self._counter("estimated_read_bytes_per_gpu", "Bytes that steps read.", {(): totals.read_bytes})
        yield self._counter("estimated_write_bytes_per_gpu", "Bytes that steps wrote.", {(): totals.write_bytes})
        yield self._counter("engine_steps", "Steps.", {(): totals.steps}, prefix="tailwright")
        seconds: dict[Labels, float] = {(part,): spent for part, spent in totals.part_seconds.items()}
        help_text = "Seconds spent in each part of steps; attention is within forward, 0 where it cannot be had."
        yield self._counter("engine_step_seconds", help_text, seconds, "part", prefix="tailwright")
        limits: dict[Labels, float] = {(limit,): steps for limit, steps in totals.limits.items()}
        yield self._counter("engine_step_limit", "Steps, by what limited them.", limits, "limit", prefix="tailwright")

    def _gauge(self, name: str, help_text: str, values: Mapping[Labels, float], *labels: str) -> Metric:
        return self._filled(GaugeMetricFamily(f"vllm:{name}", help_text, labels=self._names(labels)), values)

    def _counter(
        self, name: str, help_text: str, values: Mapping[Labels, float], *labels: str, prefix: str = "vllm"
    ) -> Metric:
        return self._filled(CounterMetricFamily(f"{prefix}:{name}", help_text, labels=self._names(labels)), values)

    def _names(self, labels: Labels) -> list[str]:
        return ["model_name", "engine", *labels]

    def _filled(self, family: GaugeMetricFamily | CounterMetricFamily, values: Mapping[Labels, float]) -> Metric:
        for labels, value in values.items():
            family.add_metric([*self._labels, *labels], value)
        return family
