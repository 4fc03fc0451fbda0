"""Which requests become exemplars, and of what."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import orjson
import pytest
from opentelemetry.proto.metrics.v1 import metrics_pb2 as otlp

from controlplane.contract import metrics
from controlplane.telemetry.otlp.bounds import Bounds
from controlplane.telemetry.reports.exemplar import KEPT, MINUTE_NS, Exemplar, of_point, of_record, slowest
from controlplane.telemetry.reports.records import Record, read_records
from controlplane.telemetry.values.refusal import Refusals

ANY_TIME = Bounds(0, 1 << 62)
LABELS = {"node": "n1", "pool": "chat", "model": "m", "revision": "4", "prompt_bucket": "<=2k"}
NS = 1_000_000_000


def record(**changes: Any) -> Record:
    whole = Record(
        node="n1",
        pool="chat",
        model="m",
        revision=3,
        request_id="r1",
        arrival_ns=100 * NS,
        e2e_s=30.0,
        prompt_tokens=600,
        cached_tokens=0,
        output_tokens=9,
        finish_reason="stop",
        block_size=16,
        parts=orjson.dumps({"e2e": 30.0, "ttft": 10.0, "tpot": 2.5, "queue": 9.0}),
        hashes=b"",
        trace_id="ab" * 16,
        batch=orjson.dumps({"running": 7}),
    )
    return whole._replace(**changes)


def test_a_request_stands_for_each_of_its_metrics_in_the_minute_it_ended() -> None:
    found = {one.metric: one for one in of_record(record())}
    assert {name: (one.value, one.time_ns // NS) for name, one in found.items()} == {
        "ttft": (10.0, 110),
        "e2e": (30.0, 130),
        "tpot": (2.5, 130),
    }
    assert (found["ttft"].minute, found["e2e"].minute) == (1, 2)
    one = found["e2e"]
    assert (one.prompt_bucket, one.pool, one.node, one.revision, one.trace_id) == ("<=2k", "chat", "n1", 3, "ab" * 16)
    assert orjson.loads(one.parts)["queue"] == 9.0 and orjson.loads(one.batch) == {"running": 7}


@pytest.mark.parametrize("reason", ["abort", "error", "timeout", "shed"])
def test_a_request_that_does_not_count_is_none(reason: str) -> None:
    assert of_record(record(finish_reason=reason)) == []


def test_only_what_was_told_and_can_be() -> None:
    assert [one.metric for one in of_record(record(parts=orjson.dumps({"e2e": 1.0}), e2e_s=1.0))] == ["e2e"]
    assert of_record(record(parts=orjson.dumps({"e2e": 1e300}), e2e_s=1e300)) == []


def point_exemplar(value: float = 0.5, trace: bytes = b"t" * 16, time_ns: int = 130 * NS) -> otlp.Exemplar:
    return otlp.Exemplar(as_double=value, trace_id=trace, span_id=b"s" * 8, time_unix_nano=time_ns)


def test_another_senders_exemplar_has_a_trace_and_a_value() -> None:
    found = of_point(metrics.TTFT.name, LABELS, point_exemplar())
    assert found is not None
    assert (found.metric, found.value, found.minute, found.time_ns) == ("ttft", 0.5, 2, 130 * NS)
    assert (found.trace_id, found.request_id, found.revision) == ((b"t" * 16).hex(), "", 4)
    assert (found.node, found.pool, found.prompt_bucket, found.model) == ("n1", "chat", "<=2k", "m")
    whole = of_point(metrics.E2E.name, {}, otlp.Exemplar(as_int=2, trace_id=b"t", time_unix_nano=1))
    assert whole is not None and whole.value == 2.0 and whole.revision == 0


@pytest.mark.parametrize(
    ("name", "exemplar"),
    [
        (metrics.QUEUE.name, point_exemplar()),
        ("tailwright.something.else", point_exemplar()),
        (metrics.TTFT.name, point_exemplar(trace=b"")),
        (metrics.TTFT.name, point_exemplar(trace=b"t" * 17)),
        (metrics.TTFT.name, point_exemplar(value=float("nan"))),
        (metrics.TTFT.name, point_exemplar(value=float("inf"))),
        (metrics.TTFT.name, point_exemplar(value=-1.0)),
        (metrics.TTFT.name, point_exemplar(time_ns=0)),
        (metrics.TTFT.name, point_exemplar(time_ns=1 << 63)),
    ],
)
def test_exemplars_of_no_use_are_none(name: str, exemplar: otlp.Exemplar) -> None:
    assert of_point(name, LABELS, exemplar) is None


def test_the_slowest_of_each_place() -> None:
    def made(value: float, minute: int = 0, request: str = "") -> Exemplar:
        return Exemplar(
            *(minute, "ttft", "chat", "<=128", value, minute * MINUTE_NS, "n", "m", 0, "", request or str(value))
        )

    given = [made(value / 10) for value in range(20)] + [made(5.0, minute=1), made(9.0, request="0.3")]
    found = slowest(given)
    assert [one.value for one in found[given[0].place]] == [1.9, 1.8, 1.7, 1.6, 1.5][:KEPT]
    assert [one.value for one in found[made(5.0, minute=1).place]] == [5.0]


def test_what_the_engine_ran_comes_with_the_span(make_spans: Callable[..., Any], start: datetime) -> None:
    request = make_spans("a", [{"id": "r1", "arrival": start}, {"id": "r2", "arrival": start + timedelta(seconds=1)}])
    first, second = request.resource_spans[0].scope_spans[0].spans
    first.trace_id = bytes(range(16))
    for name, value in (("running", 3.0), ("kv_usage", 0.25), ("peak_step_tokens", 512.0)):
        first.attributes.add(key=metrics.SPAN_BATCH_PREFIX + name).value.double_value = value
    second.attributes.add(key=metrics.SPAN_BATCH_PREFIX + "running").value.double_value = float("nan")
    refusals = Refusals()
    (found,) = read_records(request, ANY_TIME, refusals)
    assert found.trace_id == bytes(range(16)).hex()
    assert orjson.loads(found.batch) == {"running": 3.0, "kv_usage": 0.25, "peak_step_tokens": 512.0}
    assert refusals.count == 1 and "tailwright.batch.running" in refusals.text()
    first.trace_id = b"short"
    refusals = Refusals()
    assert read_records(request, ANY_TIME, refusals) == [] and "trace_id" in refusals.text()
