"""GET /metrics: the engine's own figures for Prometheus, under vLLM's names where the meaning is the same.

Names, labels and bucket edges are vLLM's (0.32), so that dashboards made for it work; `tailwright:` is for what it has
no name for. Histograms follow the event log; whatever a part of the engine counts anyway is read when it is scraped
(scraped.py), so that a step pays next to nothing.
"""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from agents.engine.core.cheap_histogram import BucketCounts
from agents.engine.core.engine import Engine
from agents.engine.core.histogram_edges import (
    FIRST_TOKEN_SECONDS,
    REQUEST_SECONDS,
    STEP_TOKENS,
    TOKEN_SECONDS,
    request_tokens,
)
from agents.engine.server.scraped import STEP_PARTS, Scraped, Totals
from controlplane.contract.reports.engine_event import EngineEvent, FinishedEvent

LABELS = ("model_name", "engine")
ENGINE = "0"
"""vLLM numbers its data-parallel engines; there is one here."""


class EngineMetrics(Collector):
    """A registry of its own, so that several engines in one process do not mix. refusals: how many by reason."""

    def __init__(self, engine: Engine, refusals: Mapping[str, int]) -> None:
        self._model = engine.options.model_name
        self._totals = Totals()
        self._histograms: list[tuple[str, str, BucketCounts]] = []
        self.registry = CollectorRegistry()
        self.registry.register(Scraped(engine, self._totals, refusals, (self._model, ENGINE)))
        lengths = request_tokens(engine.steps.max_model_len)
        add = self._histogram
        self._ttft = add("time_to_first_token_seconds", "Received to first token sent.", FIRST_TOKEN_SECONDS)
        self._itl = add("inter_token_latency_seconds", "Each gap between tokens.", TOKEN_SECONDS)
        self._tpot = add("request_time_per_output_token_seconds", "(e2e - ttft) / (tokens - 1).", TOKEN_SECONDS)
        self._e2e = add("e2e_request_latency_seconds", "Received to last byte sent.", REQUEST_SECONDS)
        self._queue = add("request_queue_time_seconds", "Queued until first scheduled.", REQUEST_SECONDS)
        self._prefill = add("request_prefill_time_seconds", "Scheduled to first token.", REQUEST_SECONDS)
        self._decode = add("request_decode_time_seconds", "First token to last token.", REQUEST_SECONDS)
        self._inference = add("request_inference_time_seconds", "Scheduled to last token.", REQUEST_SECONDS)
        self._step_tokens = add("iteration_tokens_total", "Tokens computed in each step.", STEP_TOKENS)
        self._prompt = add("request_prompt_tokens", "Prompt tokens of each finished request.", lengths)
        self._output = add("request_generation_tokens", "Output tokens of each finished request.", lengths)
        self.registry.register(self)
        engine.log.add_consumer(self.consume)

    def consume(self, event: EngineEvent) -> None:
        """Take in one event of the log."""
        if event["kind"] == "step":
            totals = self._totals
            totals.steps += 1
            totals.preemptions += event["preemptions"]
            totals.limits[event["limit"]] += 1
            totals.flops += event["flops"]
            totals.read_bytes += event["read_bytes"]
            totals.write_bytes += event["write_bytes"]
            seconds = totals.part_seconds
            for part in STEP_PARTS:
                spent = event.get(part)
                if isinstance(spent, float):
                    seconds[part] += spent
            self._step_tokens.observe(event["batched_tokens"])
        elif event["kind"] == "gaps":
            self._itl.observe_all(event["gaps"])
        elif event["kind"] == "first_token":
            self._ttft.observe(event["ttft"])
        elif event["kind"] == "finished":
            self._finished(event)

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self.registry)

    def _finished(self, event: FinishedEvent) -> None:
        totals = self._totals
        totals.finished[event["finish_reason"]] = totals.finished.get(event["finish_reason"], 0) + 1
        totals.prompt_tokens += event["prompt_tokens"]
        totals.output_tokens += event["output_tokens"]
        totals.cached_tokens += event["cached_tokens"]
        self._e2e.observe(event["e2e"])
        self._queue.observe(event["queue"])
        self._prefill.observe(event["prefill"])
        self._decode.observe(event["decode"])
        self._inference.observe(event["prefill"] + event["decode"])
        self._prompt.observe(event["prompt_tokens"])
        self._output.observe(event["output_tokens"])
        if event["tpot"] is not None:
            self._tpot.observe(event["tpot"])

    def collect(self) -> Iterator[Metric]:
        """The histograms."""
        for name, help_text, counts in self._histograms:
            family = HistogramMetricFamily(f"vllm:{name}", help_text, labels=LABELS)
            counts.add_to(family, [self._model, ENGINE])
            yield family

    def _histogram(self, name: str, help_text: str, edges: tuple[float, ...]) -> BucketCounts:
        counts = BucketCounts(edges)
        self._histograms.append((name, help_text, counts))
        return counts
