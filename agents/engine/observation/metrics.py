"""GET /metrics: the engine's own figures for Prometheus, under vLLM's names where the meaning is the same.

Counters and histograms follow the event log; gauges and totals that the scheduler keeps are read when they are
scraped, so that a step pays nothing for them.
"""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agents.engine.engine import Engine
from controlplane.contract.engine_event import EngineEvent

_SHORT = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_LONG = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class EngineMetrics(Collector):
    """A registry of its own, so that several engines in one process do not mix."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._model = engine.options.model_name
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self._ttft = self._histogram("time_to_first_token_seconds", "Request received to first token sent.", _LONG)
        self._itl = self._histogram("inter_token_latency_seconds", "Each gap between tokens.", _SHORT)
        self._e2e = self._histogram("e2e_request_latency_seconds", "Request received to last byte sent.", _LONG)
        self._queue = self._histogram("request_queue_time_seconds", "Queued until first scheduled.", _LONG)
        self._prefill = self._histogram("request_prefill_time_seconds", "First scheduled to first token.", _LONG)
        self._decode = self._histogram("request_decode_time_seconds", "First token to last token.", _LONG)
        self._prompt_tokens = self._counter("prompt_tokens", "Prompt tokens of finished requests.")
        self._output_tokens = self._counter("generation_tokens", "Output tokens of finished requests.")
        self._preemptions = self._counter("num_preemptions", "Requests preempted and recomputed.")
        self._drafts = self._counter("spec_decode_num_draft_tokens", "Draft tokens proposed.")
        self._accepted = self._counter("spec_decode_num_accepted_tokens", "Draft tokens accepted.")
        self._finished = Counter(
            "vllm:request_success", "Finished requests.", ["model_name", "finished_reason"], registry=self.registry
        )
        engine.log.add_consumer(self.consume)

    def consume(self, event: EngineEvent) -> None:
        """Take in one event of the log."""
        if event["kind"] == "step":
            if event["draft_tokens"]:
                self._drafts.inc(event["draft_tokens"])
                self._accepted.inc(event["accepted_tokens"])
            if event["preemptions"]:
                self._preemptions.inc(event["preemptions"])
        elif event["kind"] == "gaps":
            for gap in event["gaps"]:
                self._itl.observe(gap)
        elif event["kind"] == "first_token":
            self._ttft.observe(event["ttft"])
        else:
            self._e2e.observe(event["e2e"])
            self._queue.observe(event["queue"])
            self._prefill.observe(event["prefill"])
            self._decode.observe(event["decode"])
            self._prompt_tokens.inc(event["prompt_tokens"])
            self._output_tokens.inc(event["output_tokens"])
            self._finished.labels(self._model, event["finish_reason"]).inc()

    def collect(self) -> Iterator[Metric]:
        """The figures that are read when scraped."""
        scheduler, pool = self._engine.steps.scheduler, self._engine.steps.pool
        for name, help_text, gauge in (
            ("num_requests_running", "Requests running.", len(scheduler.running)),
            ("num_requests_waiting", "Requests waiting.", len(scheduler.waiting)),
            ("kv_cache_usage_perc", "Share of KV-cache blocks in use, 0 to 1.", pool.usage),
        ):
            family = GaugeMetricFamily(f"vllm:{name}", help_text, labels=["model_name"])
            family.add_metric([self._model], gauge)
            yield family
        for name, help_text, total in (
            ("prefix_cache_queries", "Prompt tokens looked up in the prefix cache.", scheduler.prefix_queries),
            ("prefix_cache_hits", "Prompt tokens found in the prefix cache.", scheduler.prefix_hits),
        ):
            counter = CounterMetricFamily(f"vllm:{name}", help_text, labels=["model_name"])
            counter.add_metric([self._model], total)
            yield counter

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)

    def _histogram(self, name: str, help_text: str, buckets: tuple[float, ...]) -> Histogram:
        metric = Histogram(f"vllm:{name}", help_text, ["model_name"], registry=self.registry, buckets=buckets)
        return metric.labels(self._model)

    def _counter(self, name: str, help_text: str) -> Counter:
        return Counter(f"vllm:{name}", help_text, ["model_name"], registry=self.registry).labels(self._model)
