"""Buckets and counts of an engine's own go into the report as they are; requests known by traces only, exactly."""

from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agents.agent.reports.report import AgentCounts, NodeIdentity, encode_metrics
from agents.agent.reports.request_spans import encode_spans
from agents.agent.reports.tally import Tally
from controlplane.contract import metrics

START = 1_700_000_000
IDENTITY = NodeIdentity("node-a", "pool-a")
BOUNDS = [0.3, 1.0, 2.5]


def buckets(metric: str, counts: list[int], total: float, **changed: Any) -> dict[str, Any]:
    head = {"kind": "buckets", "time": START + 1.0, "revision": 3, "metric": metric}
    return {**head, "bounds": BOUNDS, "counts": counts, "total": total, **changed}


def traced(**changed: Any) -> dict[str, Any]:
    return {
        "kind": "traced", "time": START + 1.0, "revision": 3, "request_id": "r1", "arrival": START - 1.0,
        "prompt_tokens": 100, "output_tokens": 5, "e2e": 1.0, "ttft": 0.2, "tpot": 0.2, "queue": 0.1, "prefill": 0.05,
        "decode": 0.8, "unaccounted": 0.05, **changed,
    }  # fmt: skip


def tally_of(*events: dict[str, Any]) -> Tally:
    tally = Tally(START // 5, 5.0, "model-a")
    for seq, event in enumerate(events, 1):
        tally.count({**event, "seq": seq}, "boot")  # type: ignore[typeddict-item]
    return tally


def report(tally: Tally) -> list[Any]:
    export = ExportMetricsServiceRequest.FromString(encode_metrics(tally, IDENTITY, 1, AgentCounts()))
    return list(export.resource_metrics[0].scope_metrics[0].metrics)


def test_buckets_go_as_a_histogram_with_their_own_bounds() -> None:
    tally = tally_of(
        buckets("e2e", [2, 1, 0, 1], 5.0), buckets("e2e", [1, 0, 0, 0], 0.1), buckets("itl", [9, 0, 0, 0], 1)
    )
    found = {metric.name: metric for metric in report(tally)}
    histogram = found[metrics.E2E.name].histogram
    (point,) = histogram.data_points
    assert histogram.aggregation_temporality == 1 and found[metrics.E2E.name].unit == "s"
    assert list(point.explicit_bounds) == BOUNDS and list(point.bucket_counts) == [3, 1, 0, 1]
    assert point.count == 5 and point.sum == pytest.approx(5.1)
    assert point.max >= 2.5 and not point.HasField("min")
    assert {item.key for item in point.attributes} == {metrics.REVISION.name, metrics.MODEL.name}
    assert found[metrics.ITL.name].histogram.data_points[0].count == 9


def test_one_value_alone_is_stated_exactly() -> None:
    found = report(tally_of(buckets("e2e", [0, 1, 0, 0], 0.75)))
    (point,) = next(metric for metric in found if metric.HasField("histogram")).histogram.data_points
    assert point.min == pytest.approx(0.75) and point.max == pytest.approx(0.75)


def test_counts_add_up() -> None:
    event = {"kind": "counts", "time": START + 1.0, "revision": 3}
    tally = tally_of(
        {**event, "counts": {"output_tokens": 70, "preemptions": 1}, "requests": {"stop": 4, "abort": 1}},
        {**event, "counts": {"output_tokens": 30}, "requests": {"stop": 2}},
    )
    found = {metric.name: metric.sum.data_points for metric in report(tally)}
    assert [point.as_int for point in found[metrics.OUTPUT_TOKENS.name]] == [100]
    assert [point.as_int for point in found[metrics.PREEMPTIONS.name]] == [1]
    reasons = {
        next(
            item.value.string_value for item in point.attributes if item.key == metrics.FINISH_REASON.name
        ): point.as_int
        for point in found[metrics.REQUESTS.name]
    }
    assert reasons == {"stop": 6, "abort": 1}


def test_a_traced_request_is_exact_and_counts_no_request() -> None:
    tally = tally_of(traced(), traced(queue=None, tpot=None, e2e=2.0))
    found = {metric.name: metric for metric in report(tally)}
    (point,) = found[metrics.E2E.name].exponential_histogram.data_points
    assert point.count == 2 and point.min == 1.0 and point.max == 2.0
    attributes = {item.key: item.value.string_value for item in point.attributes}
    assert attributes[metrics.PROMPT_BUCKET.name] == "<=128" and metrics.CACHE_CLASS.name not in attributes
    assert found[metrics.QUEUE.name].exponential_histogram.data_points[0].count == 1
    assert metrics.REQUESTS.name not in found and metrics.TTFT.name not in found
    assert metrics.TOKENIZE.name not in found


def test_a_traced_request_is_in_the_workload_record() -> None:
    export = ExportTraceServiceRequest.FromString(encode_spans(tally_of(traced(queue=None)), IDENTITY, bytes(32)))
    (span,) = export.resource_spans[0].scope_spans[0].spans
    given = {item.key for item in span.attributes}
    assert span.name == metrics.SPAN_REQUEST
    assert {metrics.SPAN_INPUT_TOKENS, metrics.SPAN_OUTPUT_TOKENS, metrics.SPAN_PART_PREFIX + "decode"} <= given
    assert not given & {
        metrics.SPAN_CACHED_TOKENS, metrics.SPAN_BLOCK_SIZE, metrics.SPAN_FINISH_REASON,
        metrics.SPAN_PART_PREFIX + "queue",
    }  # fmt: skip


@pytest.mark.parametrize(
    "event",
    [
        buckets("e2e", [1, 2], 1.0),
        buckets("e2e", [1, 0, 0, -1], 1.0),
        buckets("requests", [1, 0, 0, 0], 1.0),
        buckets("warp", [1, 0, 0, 0], 1.0),
        buckets("e2e", [1, 0, 0, 0], float("nan")),
        {"kind": "counts", "time": START + 1.0, "revision": 3, "counts": {"e2e": 1}, "requests": {}},
        {"kind": "counts", "time": START + 1.0, "revision": 3, "counts": {"output_tokens": -1}, "requests": {}},
    ],
)
def test_what_cannot_be_counted_changes_nothing(event: dict[str, Any]) -> None:
    tally = tally_of(buckets("e2e", [2, 1, 0, 1], 5.0))
    before = report(tally)
    with pytest.raises((KeyError, ValueError)):
        tally.count({**event, "seq": 2}, "boot")  # type: ignore[typeddict-item]
    assert report(tally) == before
