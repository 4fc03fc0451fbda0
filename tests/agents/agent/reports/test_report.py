"""A report adds up to its events, packed or as OTLP, and can never be taken for another one."""

import json
import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agents.agent.reports.clock_offset import ClockReading
from agents.agent.reports.otlp_report import request_of
from agents.agent.reports.report import AgentCounts, NodeIdentity, body_of, encode_metrics, packed
from agents.agent.reports.report_table import ReportTable
from agents.agent.reports.request_spans import encode_spans, rekey
from agents.agent.reports.tally import Tally
from controlplane.contract import metrics
from controlplane.contract.histogram import AXIS_MIN, SCALE, ZERO_THRESHOLD_S, axis_position
from controlplane.contract.metrics import prompt_bucket
from controlplane.contract.reports import packed_report
from tests.agents.backends.fake_engine import request_events

START = 1_700_000_000
IDENTITY = NodeIdentity("node-a", "pool-a", "eu")


def tally_of(count: int, time_s: float = START + 1) -> Tally:
    tally = Tally(START // 5, 5.0, "model-a")
    events = [event for number in range(count) for event in request_events(time_s, number)]
    for seq, event in enumerate(events, 1):
        tally.count({**event, "seq": seq}, "boot")
    return tally


def decoded(tally: Tally, ordinal: int = 1, counts: AgentCounts | None = None) -> dict[str, object]:
    body = encode_metrics(tally, IDENTITY, ordinal, counts or AgentCounts())
    (block,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    assert {item.key: item.value.string_value for item in block.resource.attributes} == {
        "service.instance.id": "node-a",
        "tailwright.pool": "pool-a",
        "service.name": "tailwright-agent",
    }
    return {metric.name: metric for metric in block.scope_metrics[0].metrics}


def test_every_number_is_in_it() -> None:
    found = decoded(tally_of(40))
    for metric in (metrics.TTFT, metrics.TPOT, metrics.E2E, *metrics.REQUEST_PARTS, metrics.UNACCOUNTED):
        (point,) = found[metric.name].exponential_histogram.data_points
        assert point.count == 40 == point.zero_count + sum(point.positive.bucket_counts)
        assert point.scale == SCALE
        assert found[metric.name].unit == "s"
        assert found[metric.name].exponential_histogram.aggregation_temporality == 1
        assert point.min * 0.999 <= point.sum / point.count <= point.max * 1.001
    (gaps,) = found[metrics.ITL.name].exponential_histogram.data_points
    assert gaps.count == 280
    sums = {
        name: sum(p.as_int for p in metric.sum.data_points) for name, metric in found.items() if metric.HasField("sum")
    }
    assert sums[metrics.REQUESTS.name] == 40
    assert sums[metrics.PROMPT_TOKENS.name] == sums[metrics.PREFIX_QUERIES.name] == 4000
    assert sums[metrics.OUTPUT_TOKENS.name] == 320
    assert sums[metrics.DRAFT_TOKENS.name] == 160
    assert sums[metrics.ACCEPTED_TOKENS.name] == 120
    assert all(metric.sum.is_monotonic for metric in found.values() if metric.HasField("sum"))
    assert found[metrics.KV_USAGE.name].gauge.data_points[0].as_double == 0.25
    assert 0 < found[metrics.UNACCOUNTED_SHARE.name].gauge.data_points[0].as_double < 0.02
    assert set(found) <= set(metrics.BY_NAME)


def test_points_carry_the_contract_attributes() -> None:
    found = decoded(tally_of(1))
    attributes = {
        item.key: item.value.string_value or item.value.int_value
        for item in found[metrics.E2E.name].exponential_histogram.data_points[0].attributes
    }
    assert attributes == {
        "gen_ai.request.model": "model-a",
        "tailwright.config.revision": 3,
        "tailwright.prompt_bucket": "<=128",
        "tailwright.cache_class": "miss",
        "tailwright.region": "eu",
    }
    (requests,) = found[metrics.REQUESTS.name].sum.data_points
    assert "gen_ai.response.finish_reason" in {item.key for item in requests.attributes}


def test_a_trial_nodes_report_says_so_and_a_serving_ones_nothing() -> None:
    for identity, told in ((IDENTITY, None), (replace(IDENTITY, trial=True), "trial")):
        body = encode_metrics(tally_of(1), identity, 1, AgentCounts())
        (scope,) = ExportMetricsServiceRequest.FromString(body).resource_metrics[0].scope_metrics
        (metric,) = (one for one in scope.metrics if one.name == metrics.E2E.name)
        (point,) = metric.exponential_histogram.data_points
        found = {item.key: item.value.string_value for item in point.attributes}
        assert found.get("tailwright.node.role") == told


def spans_of_points(tally: Tally, ordinal: int) -> set[tuple[int, int]]:
    found = decoded(tally, ordinal)
    return {
        (point.start_time_unix_nano, point.time_unix_nano)
        for metric in found.values()
        for point in getattr(metric, metric.WhichOneof("data")).data_points
    }


@pytest.mark.parametrize("ordinal", [1, 2, 10**6, 5 * 10**9 - 1])
def test_a_point_lies_inside_its_window(ordinal: int) -> None:
    for start, end in spans_of_points(tally_of(2), ordinal):
        assert start // 5_000_000_000 == (end - 1) // 5_000_000_000 == START // 5
        assert start < end


def test_two_parts_of_a_window_are_never_taken_for_one() -> None:
    assert spans_of_points(tally_of(2), 7).isdisjoint(spans_of_points(tally_of(2), 8))
    assert encode_metrics(tally_of(2), IDENTITY, 7, AgentCounts()) == encode_metrics(
        tally_of(2), IDENTITY, 7, AgentCounts()
    )


def test_the_agent_says_what_it_missed_and_dropped() -> None:
    tally = tally_of(1)
    tally.missed = 4
    found = decoded(tally, counts=AgentCounts(spool_depth=3, spool_dropped=2))
    assert found[metrics.EVENTS_MISSED.name].sum.data_points[0].as_int == 4
    assert found[metrics.SPOOL_DROPPED.name].sum.data_points[0].as_int == 2
    assert found[metrics.SPOOL_DEPTH.name].gauge.data_points[0].as_double == 3
    assert metrics.CLOCK_OFFSET.name not in found


def test_the_clock_is_told_where_it_is_known() -> None:
    found = decoded(tally_of(1), counts=AgentCounts(clock=ClockReading(-0.5, 0.001)))
    assert found[metrics.CLOCK_OFFSET.name].gauge.data_points[0].as_double == -0.5
    assert found[metrics.CLOCK_OFFSET_ERROR.name].gauge.data_points[0].as_double == 0.001


def test_buckets_of_the_engines_own_go_as_otlp_and_all_else_packed() -> None:
    tally = tally_of(2)
    body = body_of(tally, IDENTITY, bytes(16), 7, AgentCounts(), ReportTable())
    assert body.is_packed and packed_report.decode(body.decoded()) == packed(
        tally, IDENTITY, bytes(16), 7, AgentCounts()
    )
    tally.count(
        {
            "kind": "buckets", "seq": 99, "time": START + 1.0, "revision": 3, "metric": "ttft", "bounds": [0.1, 1.0],
            "counts": [1, 2, 0], "total": 1.0,
        },
        "boot",
    )  # fmt: skip
    body = body_of(tally, IDENTITY, bytes(16), 7, AgentCounts(), ReportTable())
    assert not body.is_packed and body.decoded() == encode_metrics(tally, IDENTITY, 7, AgentCounts())
    histograms = [
        metric.WhichOneof("data")
        for metric in ExportMetricsServiceRequest.FromString(body.decoded())
        .resource_metrics[0]
        .scope_metrics[0]
        .metrics
        if metric.name == metrics.TTFT.name
    ]
    assert histograms == ["exponential_histogram", "histogram"]


durations = st.floats(0, 2000) | st.sampled_from(
    [0.0, 2.0**-20, math.nextafter(2.0**-20, 1), 1024.0, math.nextafter(1024.0, 0), 1e-300]
)
happenings = st.tuples(
    st.integers(0, 20),
    st.sampled_from([100, 600]),
    st.sampled_from(["", "a", "b"]),
    st.lists(durations, min_size=1, max_size=20),
)


@given(st.lists(happenings, max_size=12), st.integers(1, 5 * 10**9 - 1))
def test_the_service_sees_what_the_tally_counted(
    given_events: list[tuple[int, int, str, list[float]]], ordinal: int
) -> None:
    """Counts are exact in each window, series and bucket, packed, and as OTLP made of the packed bytes."""
    tally = Tally(START // 5, 5.0, "model-a")
    for seq, (second, prompt, tenant, gaps) in enumerate(given_events, 1):
        tally.count(
            {
                "kind": "gaps", "seq": seq, "time": START + second + 0.5, "revision": 3, "prompt_tokens": prompt,
                "cached_tokens": 0, "gaps": gaps, **({"tenant": tenant} if tenant else {}),
            },
            "boot",
        )  # fmt: skip
    wanted: Counter[tuple[int, str, str, int]] = Counter()
    for second, prompt, tenant, gaps in given_events:
        for gap in gaps:
            position = -1 if gap <= ZERO_THRESHOLD_S else axis_position(min(gap, 1024.0))
            wanted[(START + second) // 5, prompt_bucket(prompt), tenant, position] += 1
    body = body_of(tally, IDENTITY, bytes(16), ordinal, AgentCounts(), ReportTable())
    report = packed_report.decode(body.decoded())
    seen: Counter[tuple[int, str, str, int]] = Counter()
    for section in report.sections:
        for histogram in section.histograms:
            labels = report.labels[histogram.labels]
            key = section.window, labels[metrics.PROMPT_BUCKET.name], labels.get(metrics.TENANT.name, "")
            seen[(*key, -1)] += histogram.zero
            for place, count in enumerate(histogram.counts):
                seen[(*key, histogram.low + place)] += count
    assert +seen == wanted
    seen.clear()
    for metric in request_of(report).resource_metrics[0].scope_metrics[0].metrics:
        for point in metric.exponential_histogram.data_points:
            text = {item.key: item.value.string_value for item in point.attributes}
            window = point.time_unix_nano // 5_000_000_000 - 1
            place_of = window, text[metrics.PROMPT_BUCKET.name], text.get(metrics.TENANT.name, "")
            seen[(*place_of, -1)] += point.zero_count
            for place, count in enumerate(point.positive.bucket_counts):
                seen[(*place_of, point.positive.offset + place - AXIS_MIN)] += count
    assert +seen == wanted


def test_requests_become_spans_without_text_and_with_hashes_of_the_fleet() -> None:
    body = encode_spans(tally_of(3), IDENTITY, b"k" * 32)
    (block,) = ExportTraceServiceRequest.FromString(body).resource_spans
    spans = block.scope_spans[0].spans
    assert len({span.span_id for span in spans}) == 3
    span = spans[1]
    attributes = {item.key: item.value for item in span.attributes}
    assert span.name == metrics.SPAN_REQUEST
    assert attributes[metrics.SPAN_REQUEST_ID].string_value == "request-1"
    assert attributes[metrics.SPAN_INPUT_TOKENS].int_value == 100
    assert attributes[metrics.SPAN_OUTPUT_TOKENS].int_value == 8
    hashes = [value.int_value for value in attributes[metrics.SPAN_BLOCK_HASHES].array_value.values]
    assert hashes == [rekey(2**64 - 2, b"k" * 32), rekey(1, b"k" * 32)]
    assert all(0 <= value < 2**63 for value in hashes)
    e2e = attributes["tailwright.part.e2e"].double_value
    parts = sum(
        attributes[f"tailwright.part.{m.short}"].double_value for m in (*metrics.REQUEST_PARTS, metrics.UNACCOUNTED)
    )
    assert parts == pytest.approx(e2e)
    assert (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9 == pytest.approx(e2e)
    assert encode_spans(tally_of(3), IDENTITY, b"k" * 32) == body
    assert json.dumps("prompt") not in str(block)


def test_keys_of_two_fleets_give_other_hashes() -> None:
    assert rekey(1, b"a") != rekey(1, b"b")
    assert encode_spans(Tally(0, 5.0, "m"), IDENTITY, b"k") == b""


def test_what_the_host_did_is_told_in_its_own_window_packed_and_as_otlp() -> None:
    tally = tally_of(1)
    own = tally.own_window
    counts = AgentCounts(host={own: {metrics.HOST_STEAL: 0.25}, own - 1: {metrics.HOST_MAJOR_FAULTS: 0.0}})
    report = packed_report.decode(body_of(tally, IDENTITY, bytes(16), 7, counts, ReportTable()).decoded())
    told = {
        (section.window, report.metrics[one.metric][0]): (one.value, report.labels[one.labels])
        for section in report.sections
        for one in (*section.sums, *section.gauges)
    }
    assert told[own, metrics.HOST_STEAL.name] == (0.25, {})
    assert told[own - 1, metrics.HOST_MAJOR_FAULTS.name] == (0.0, {})  # Measured, and none.
    found = decoded(tally, counts=counts)
    assert {metrics.HOST_STEAL.name, metrics.HOST_MAJOR_FAULTS.name} <= found.keys()
