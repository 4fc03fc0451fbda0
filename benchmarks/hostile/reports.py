"""Hostile reports of an agent: OpAMP messages of a valid form, and bodies of /v1/metrics, packed and OTLP."""

import random
import time
from typing import Any

from opentelemetry._opamp.proto import opamp_pb2
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from benchmarks.hostile.values import NUMBERS, anything, json_bytes, mutated, text
from controlplane.contract import metrics
from controlplane.contract.knobs import KNOBS, ChangeClass
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.opamp import BACKEND, DECOMPOSITION, EFFECTIVE_CONFIG, ENGINE_URL, ROLE
from controlplane.contract.reports.packed_report import PackedHistogram, PackedNumber, PackedReport, Section

SENT_TEXT_LIMIT = 200
"""A protobuf string is UTF-8; beyond this many characters a longer one shows nothing more."""


def effective(rng: random.Random) -> dict[str, Any]:
    """An effective configuration of which any part may be of any type."""
    knobs = {name: rng.choice((8, [[4, 2]], "int8", anything(rng))) for name in KNOBS if rng.random() < 0.8}
    costs = {
        change.value: {name: rng.choice(NUMBERS) for name in ("count", "last_s", "mean_s", "unavailable_s")}
        for change in ChangeClass
    }
    said: dict[str, Any] = {
        "revision": rng.choice((0, 1, 2, rng.choice(NUMBERS))),
        "knobs": knobs,
        "sources": {name: text(rng) for name in knobs},
        "change_classes": {name: rng.choice(("live", "swap", "restart", text(rng))) for name in KNOBS},
        "live_limits": {name: rng.choice(NUMBERS) for name in KNOBS},
        "limits": {name: rng.choice(NUMBERS) for name in KNOBS},
        "formats": ["none", text(rng)],
        "costs": costs,
    }
    for name in list(said):
        if rng.random() < 0.1:
            said[name] = anything(rng)
    return said


def agent_message(rng: random.Random, node: str, uid: bytes, sequence: int) -> bytes:
    """An AgentToServer of this node; one in ten has its bytes changed."""
    message = opamp_pb2.AgentToServer(instance_uid=uid, sequence_num=sequence, capabilities=0x3807)
    if rng.random() < 0.8:
        _describe(rng, message, node)
    if rng.random() < 0.7:
        message.health.healthy = rng.random() < 0.5
        message.health.last_error, message.health.status = _sent(rng), _sent(rng)
        for component in ("engine", "spool", DECOMPOSITION, _sent(rng)):
            entry = message.health.component_health_map[component]
            entry.healthy, entry.status, entry.last_error = rng.random() < 0.5, _sent(rng), _sent(rng)
        if rng.random() < 0.5:
            message.health.component_health_map[DECOMPOSITION].status = str(rng.choice(NUMBERS))
    if rng.random() < 0.8:
        body = json_bytes(effective(rng) if rng.random() < 0.9 else anything(rng))
        message.effective_config.config_map.config_map[EFFECTIVE_CONFIG].body = body
    if rng.random() < 0.3:
        message.remote_config_status.status = rng.randrange(4)  # type: ignore[assignment]
        message.remote_config_status.last_remote_config_hash = rng.choice(
            (b"1:abc", b"", b"\xff\x00", b"9" * 4000 + b":")
        )
        message.remote_config_status.error_message = _sent(rng)
    if rng.random() < 0.02:
        message.agent_disconnect.SetInParent()
    packed: bytes = message.SerializeToString()
    return mutated(rng, packed) if rng.random() < 0.1 else packed


def _describe(rng: random.Random, message: opamp_pb2.AgentToServer, node: str) -> None:
    said = {
        metrics.NODE.name: node,
        "service.version": _sent(rng),
        metrics.POOL.name: rng.choice(("chat", "chat", "other", _sent(rng))),
        ROLE: rng.choice(("serving", "serving", "trial", _sent(rng))),
        BACKEND: rng.choice(("embedded", "vllm", _sent(rng))),
        metrics.MODEL.name: _sent(rng),
        ENGINE_URL: rng.choice(("http://127.0.0.1:9", "javascript:alert(1)", _sent(rng))),
    }
    for name, value in said.items():
        message.agent_description.non_identifying_attributes.add(key=name).value.string_value = value


def _sent(rng: random.Random) -> str:
    return text(rng)[:SENT_TEXT_LIMIT]


def metrics_body(rng: random.Random, node: str) -> tuple[bytes, str]:
    """A body of /v1/metrics and its content type: mostly of a valid form, with values that are not."""
    kind = rng.randrange(4)
    if kind == 0:
        body, media = packed_report.encode(_packed(rng, node)), packed_report.MEDIA_TYPE
    elif kind == 1:
        body, media = json_bytes({"resourceMetrics": anything(rng, 5)}), "application/json"
    else:
        body, media = _otlp(rng, node).SerializeToString(), "application/x-protobuf"
    return (mutated(rng, body), media) if rng.random() < 0.4 else (body, media)


def _packed(rng: random.Random, node: str) -> PackedReport:
    window = int(time.time()) // 5 - rng.choice((1, 2, 3, 100, -100))
    totals = [float(rng.choice(NUMBERS[:10])) for _ in range(3)]
    return PackedReport(
        stream=rng.randbytes(16),
        ordinal=rng.choice((1, 2, 2**40)),
        resource={metrics.NODE.name: node, metrics.POOL.name: rng.choice(("chat", "p" * 300))},
        metrics=((metrics.TTFT.name, metrics.TTFT.kind), (metrics.OUTPUT_TOKENS.name, metrics.OUTPUT_TOKENS.kind)),
        labels=({metrics.MODEL.name: _sent(rng), metrics.TENANT.name: _sent(rng)},),
        sections=(
            Section(
                window,
                (PackedHistogram(0, 0, rng.choice((0, 100)), (1, 2, 3), 0, *totals),),
                (PackedNumber(1, 0, float(rng.choice(NUMBERS))),),
            ),
        ),
    )


def _otlp(rng: random.Random, node: str) -> ExportMetricsServiceRequest:
    request = ExportMetricsServiceRequest()
    of_node = request.resource_metrics.add()
    for name, value in ((metrics.NODE.name, node), (metrics.POOL.name, rng.choice(("chat", _sent(rng))))):
        of_node.resource.attributes.add(key=name).value.string_value = value
    sent = of_node.scope_metrics.add().metrics
    now_ns = time.time_ns() // (5 * 10**9) * 5 * 10**9
    for metric in rng.sample((metrics.TTFT, metrics.E2E, metrics.REQUESTS, metrics.RUNNING, metrics.KV_USAGE), 3):
        made = sent.add(name=metric.name, unit=metric.unit)
        points: Any = rng.choice((made.gauge, made.sum, made.histogram, made.exponential_histogram))
        if points is not made.gauge:
            points.aggregation_temporality = rng.randrange(3)
        point = points.data_points.add(start_time_unix_nano=now_ns - 5 * 10**9, time_unix_nano=now_ns)
        for label in (metrics.MODEL.name, metrics.TENANT.name, _sent(rng)):
            point.attributes.add(key=label).value.string_value = _sent(rng)
        if points in (made.gauge, made.sum):
            point.as_double = float(rng.choice(NUMBERS))
        else:
            point.count, point.sum = rng.randrange(5), float(rng.choice(NUMBERS))
    return request
