"""A program that an OpenTelemetry SDK measures, with nothing of ours in it. Configured by OTEL_* alone.

Usage: sdk_process.py SEED BATCHES. In each batch 100 values of ttft in seconds (lognormal, of SEED) and 7 output
tokens each are recorded, a span of its own kind is ended, and everything is flushed; what an exporter says goes to
standard error. Exit status 1 when an export failed.
"""

import sys

import numpy as np
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

BATCH = 100
TOKENS = 7


def values(seed: int, batches: int) -> list[float]:
    """What is recorded."""
    found: list[float] = np.random.default_rng(seed).lognormal(-1.0, 0.8, BATCH * batches).tolist()
    return found


def main(seed: int, batches: int) -> int:
    provider = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter(), export_interval_millis=1e9)])
    traces = TracerProvider()
    traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    meter, tracer = provider.get_meter("a program"), traces.get_tracer("a program")
    ttft = meter.create_histogram("gen_ai.server.time_to_first_token", unit="s")
    tokens = meter.create_counter("tailwright.output_tokens")
    running = meter.create_up_down_counter("tailwright.requests.running")
    recorded = values(seed, batches)
    for batch in range(batches):
        with tracer.start_as_current_span("GET /"):
            for value in recorded[batch * BATCH : (batch + 1) * BATCH]:
                ttft.record(value, {"gen_ai.request.model": "m"})
                tokens.add(TOKENS, {"gen_ai.request.model": "m"})
            running.add(1)
        if not (provider.force_flush() and traces.force_flush()):
            return 1
    provider.shutdown()
    traces.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
