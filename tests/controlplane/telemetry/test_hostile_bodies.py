"""Whole requests that mean harm: a 200 that says what was refused, or a 4xx; memory is bounded; good reports stay."""

import gzip
import inspect
import json
import random
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import zstandard
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from controlplane.contract import metrics
from controlplane.contract.reports import packed_report
from controlplane.telemetry.journal import content_encoding
from controlplane.telemetry.otlp import otlp_bodies
from tests.controlplane.telemetry import packed_reports

pytestmark = pytest.mark.slow

PROTOBUF, JSON, PACKED = "application/x-protobuf", "application/json", packed_report.MEDIA_TYPE
SEED = 20260301
MUTANTS = 250
"""Of each kind of body: a few seconds in all."""
WINDOW = int(datetime.fromisoformat("2026-03-01T12:00:00+00:00").timestamp()) // 5


def rich_metrics(make_report: Callable[..., Any]) -> ExportMetricsServiceRequest:
    """A point of every kind."""
    report = make_report(node="evil")
    report.histogram([0.1, 0.2, 3.0], model="m", tenant="t")
    report.histogram([0.1, 0.2, 3.0], name=metrics.ITL.name, scale=9)
    report.histogram([0.1, 0.2, 3.0], name=metrics.TPOT.name, scale=2)
    report.number(metrics.REQUESTS.name, 5)
    report.number(metrics.RUNNING.name, 5, kind="gauge")
    explicit = report.metrics.add(name=metrics.E2E.name, unit="s").histogram
    explicit.aggregation_temporality = 2
    explicit.data_points.add(
        start_time_unix_nano=report.start_ns, time_unix_nano=report.end_ns, count=2, sum=1.0,
        explicit_bounds=[0.1, 1.0], bucket_counts=[0, 2, 0], min=0.2, max=0.8,
    ).exemplars.add(time_unix_nano=report.end_ns, as_double=0.5, trace_id=b"t" * 16, span_id=b"s" * 8)  # fmt: skip
    request: ExportMetricsServiceRequest = report.request
    return request


def mutants(body: bytes, rng: random.Random) -> Iterator[bytes]:
    """Bytes changed, cut out, doubled, cut off, or made of something else."""
    pieces = [
        b"\xff" * 10,
        bytes(8),
        b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
        b"NaN",
        b'"',
        b"-1",
        b"[[[[",
        b"\\ud800",
    ]
    for _ in range(MUTANTS):
        spoilt = bytearray(body)
        for _ in range(rng.choice((1, 1, 1, 2, 4, 16))):
            at, deed = rng.randrange(len(spoilt) + 1), rng.randrange(6)
            until = min(at + rng.choice((1, 2, 4, 8, 64)), len(spoilt))
            if deed == 0 and at < len(spoilt):
                spoilt[at] = rng.randrange(256)
            elif deed == 1 and at < len(spoilt):
                spoilt[at] ^= 1 << rng.randrange(8)
            elif deed == 2:
                del spoilt[at:until]
            elif deed == 3:
                spoilt[at:at] = spoilt[at:until]
            elif deed == 4:
                spoilt[at:until] = rng.choice(pieces)
            elif len(spoilt) > 1:
                del spoilt[max(at, 1) :]
        yield bytes(spoilt)


class Victim:
    """The service under attack, and the reports of somebody honest."""

    def __init__(self, api: httpx.Client, make_report: Callable[..., Any], start: datetime) -> None:
        self.api, self._make_report, self._start = api, make_report, start
        self.sent = 0
        self.statuses: set[int] = set()

    def attack(self, body: bytes, kind: str, path: str = "/v1/metrics", **headers: str) -> httpx.Response:
        """Any 4xx, or a 200 that can be read."""
        answer = self.api.post(path, content=body, headers={"Content-Type": kind} | headers)
        self.statuses.add(answer.status_code)
        assert answer.status_code == 200 or 400 <= answer.status_code < 500, (answer.status_code, answer.text, body)
        if answer.status_code != 200:
            assert answer.json()["error"]["message"], body
        elif kind == JSON:
            assert set(answer.json()) <= {"partialSuccess"}
        else:
            schema = ExportMetricsServiceResponse if path == "/v1/metrics" else ExportTraceServiceResponse
            schema.FromString(answer.content)
        return answer

    def honest_report(self) -> None:
        """Three requests, as OTLP or packed."""
        self.sent += 1
        if self.sent % 2:
            report = self._make_report(node="honest", start=self._start + timedelta(seconds=5 * (self.sent % 60)))
            report.histogram([0.1, 0.2, 0.4], model=str(self.sent))
            answer = self.api.post(
                "/v1/metrics", content=report.request.SerializeToString(), headers={"Content-Type": PROTOBUF}
            )
        else:
            sections = [packed_report.Section(WINDOW, (packed_reports.histogram([0.1, 0.2, 0.4]),))]
            good = packed_reports.report(self.sent, stream=b"h" * 16, node="honest", sections=sections)
            answer = self.api.post("/v1/metrics", content=packed_report.encode(good), headers={"Content-Type": PACKED})
        assert answer.status_code == 200 and answer.content == b"", answer.text

    def check(self) -> None:
        """Nothing of the honest node is lost, nothing doubled, and the service is well."""
        asked = {"metric": "ttft", "window": "15m", "node": "honest"}
        series = self.api.get("/api/v1/quantiles", params=asked).json()["series"]
        assert sum(one["count"] for one in series) == 3 * self.sent
        # Whatever else was kept can be asked for.
        assert (
            self.api.get("/api/v1/quantiles", params={"metric": "ttft", "by": "node", "window": "15m"}).status_code
            == 200
        )


@pytest.fixture
def victim(api: httpx.Client, make_report: Callable[..., Any], start: datetime) -> Iterator[Victim]:
    found = Victim(api, make_report, start)
    found.honest_report()
    found.honest_report()
    yield found
    found.honest_report()
    found.honest_report()
    found.check()


def attack_with_mutants(victim: Victim, body: bytes, kind: str, path: str = "/v1/metrics", **headers: str) -> None:
    for number, spoilt in enumerate(mutants(body, random.Random(SEED))):
        victim.attack(spoilt, kind, path, **headers)
        if number % 25 == 0:
            victim.honest_report()
    assert victim.statuses >= {200, 400}, "mutants that are all alike test nothing"


def test_mutated_protobuf(victim: Victim, make_report: Callable[..., Any]) -> None:
    attack_with_mutants(victim, rich_metrics(make_report).SerializeToString(), PROTOBUF)


def test_mutated_json(victim: Victim, make_report: Callable[..., Any]) -> None:
    attack_with_mutants(victim, json_format.MessageToJson(rich_metrics(make_report), indent=None).encode(), JSON)


def test_mutated_packed_reports(victim: Victim) -> None:
    report = packed_reports.report(node="evil", window=WINDOW, label_sets=2, per_set=3)
    attack_with_mutants(victim, packed_report.encode(report), PACKED)


@pytest.mark.parametrize("kind", [PROTOBUF, JSON])
def test_mutated_spans(victim: Victim, make_spans: Callable[..., Any], start: datetime, kind: str) -> None:
    request = make_spans("evil", [{"id": f"r{i}", "arrival": start} for i in range(3)])
    body = request.SerializeToString() if kind == PROTOBUF else json_format.MessageToJson(request, indent=None).encode()
    attack_with_mutants(victim, body, kind, "/v1/traces")


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "deflate"])
def test_mutated_compression(victim: Victim, make_report: Callable[..., Any], encoding: str) -> None:
    compress = {"gzip": gzip.compress, "zstd": zstandard.compress, "deflate": zlib.compress}[encoding]
    body = compress(rich_metrics(make_report).SerializeToString())
    for spoilt in mutants(body, random.Random(SEED)):
        victim.attack(spoilt, PROTOBUF, **{"Content-Encoding": encoding})
    assert 400 in victim.statuses


@pytest.mark.parametrize("kind", [PROTOBUF, JSON, PACKED])
def test_cut_off_anywhere(victim: Victim, make_report: Callable[..., Any], kind: str) -> None:
    request = rich_metrics(make_report)
    body = {
        PROTOBUF: request.SerializeToString,
        JSON: lambda: json_format.MessageToJson(request, indent=None).encode(),
        PACKED: lambda: packed_report.encode(packed_reports.report(node="evil", window=WINDOW)),
    }[kind]()
    for end in range(0, len(body), 1 + len(body) // 150):
        victim.attack(body[:end], kind)


def test_random_bytes(victim: Victim) -> None:
    rng = random.Random(SEED)
    for _ in range(100):
        body = rng.randbytes(rng.choice((0, 1, 10, 100, 5000)))
        for kind in (PROTOBUF, JSON, PACKED, "text/plain"):
            victim.attack(
                body, kind, **{"Content-Encoding": rng.choice(("", "gzip", "zstd", "deflate", "br", "gzip, gzip"))}
            )


# -- sizes -------------------------------------------------------------------------------------------------------


def peak_bytes() -> int:
    """The most memory that this process has held since `forget_peak`."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def forget_peak() -> int:
    """Start anew; returns what is held now."""
    Path("/proc/self/clear_refs").write_text("5")
    return peak_bytes()


def unstated_zstd(plain: bytes) -> bytes:
    """A frame from a streaming compressor, which does not say how long it is."""
    stream = zstandard.ZstdCompressor().compressobj()
    return stream.compress(plain) + stream.flush()


BOMB = bytes(64 << 20)
BOMBS = {
    "gzip": ("gzip", lambda: gzip.compress(BOMB)),
    "deflate": ("deflate", lambda: zlib.compress(BOMB)),
    "zstd": ("zstd", lambda: zstandard.compress(BOMB)),
    "zstd of unstated size": ("zstd", lambda: unstated_zstd(BOMB)),
    "gzip of gzip members": ("gzip", lambda: gzip.compress(bytes(1 << 20)) * 64),
}


@pytest.mark.parametrize("name", BOMBS)
@pytest.mark.parametrize("kind", [PROTOBUF, PACKED])
def test_bombs_are_refused(victim: Victim, name: str, kind: str) -> None:
    encoding, make = BOMBS[name]
    answer = victim.attack(make(), kind, **{"Content-Encoding": encoding})
    assert answer.status_code == 413 and answer.json()["error"]["detail"]["field"] == "body"


DECOMPRESS_APART = f"""
import re, sys
from pathlib import Path
from controlplane.contract.errors import TooLarge
from controlplane.telemetry.journal.content_encoding import decompress
{inspect.getsource(peak_bytes)}
{inspect.getsource(forget_peak)}
body = sys.stdin.buffer.read()
held = forget_peak()
try:
    decompress(body, sys.argv[1])
except TooLarge:
    print(peak_bytes() - held)
"""


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_not_held(name: str) -> None:
    """In a process that does nothing else: the peak of the tests' own is anybody's."""
    encoding, make = BOMBS[name]
    body = make()
    assert len(body) < 1 << 20
    told = subprocess.run(
        [sys.executable, "-c", DECOMPRESS_APART, encoding], input=body, capture_output=True, check=True
    )
    assert int(told.stdout) < 4 * content_encoding.LIMIT_DECODED


def test_thousands_of_empty_gzip_members_cost_no_time(victim: Victim) -> None:
    assert victim.attack(gzip.compress(b"") * 200_000, PROTOBUF, **{"Content-Encoding": "gzip"}).status_code == 400


def field(number: int, content: bytes) -> bytes:
    """A length-delimited protobuf field."""
    size, length = len(content), bytearray()
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes([number << 3 | 2]) + bytes([*length, size]) + content


def nested(depth: int) -> bytes:
    """An AnyValue that is an array in an array in an array."""
    value = b""
    for _ in range(depth):
        value = field(5, field(1, value))
    return value


def test_many_tiny_messages(victim: Victim) -> None:
    """Two bytes on the wire can be hundreds in memory, and a millisecond of work."""
    most = otlp_bodies.LIMIT_PLAIN - 64
    held = forget_peak()
    name = field(1, metrics.TTFT.name.encode())
    for body in (
        b"\x0a\x00" * (most // 2),  # Resources.
        field(1, b"\x12\x00" * (most // 2)),  # Scopes.
        field(1, field(2, b"\x12\x00" * (most // 2))),  # Metrics.
        field(1, field(2, field(2, name + field(10, b"\x0a\x00" * (most // 2))))),  # Points.
    ):
        assert victim.attack(body, PROTOBUF).status_code == 413
    for body in (b"\x0a\x00" * (most // 2), field(1, field(2, b"\x12\x00" * (most // 2)))):
        assert victim.attack(body, PROTOBUF, "/v1/traces").status_code == 413
    # Protobuf's arena doubles as it grows: 94 to 145 times the body were seen, by what the process had free before.
    assert peak_bytes() - held < 192 * otlp_bodies.LIMIT_PLAIN


def test_one_point_with_very_many_buckets(victim: Victim, make_report: Callable[..., Any]) -> None:
    report = make_report(node="evil")
    point = report.histogram([0.1])
    point.positive.bucket_counts.extend([1] * 1_000_000)
    point.count = sum(point.positive.bucket_counts)
    report.histogram([0.1], name=metrics.E2E.name).scale = 5
    answer = victim.attack(report.request.SerializeToString(), PROTOBUF)
    partial = ExportMetricsServiceResponse.FromString(answer.content).partial_success
    assert answer.status_code == 200 and partial.rejected_data_points == 1


def test_many_unknown_names(victim: Victim, make_report: Callable[..., Any]) -> None:
    report = make_report(node="evil")
    for i in range(20_000):
        report.metrics.add(name=f"http.server.{i}").gauge.data_points.add(as_int=1)
    report.histogram([0.1])
    answer = victim.attack(report.request.SerializeToString(), PROTOBUF)
    partial = ExportMetricsServiceResponse.FromString(answer.content).partial_success
    assert partial.rejected_data_points == 20_000 and len(partial.error_message) < 2_000


def test_nested_deeply(victim: Victim, make_report: Callable[..., Any], make_spans: Any, start: datetime) -> None:
    """In protobuf only the point or span that holds it is refused; JSON that deep is no JSON to our parser."""
    report = make_report(node="evil")
    report.histogram([0.1])
    good = report.request.SerializeToString()
    attribute = field(1, b"deep") + field(2, nested(3_000))
    name, point = field(1, metrics.TTFT.name.encode()), field(1, field(1, attribute))
    resource = field(1, report.request.resource_metrics[0].resource.SerializeToString())
    bad = field(1, resource[0:0] + field(2, field(2, name + field(10, point + b"\x10\x01"))))
    answer = victim.attack(good + bad, PROTOBUF)
    assert ExportMetricsServiceResponse.FromString(answer.content).partial_success.rejected_data_points == 1
    spans = make_spans("evil", [{"id": "r", "arrival": start}]).SerializeToString()
    answer = victim.attack(spans + field(1, field(2, field(2, field(9, attribute)))), PROTOBUF, "/v1/traces")
    assert ExportTraceServiceResponse.FromString(answer.content).partial_success.rejected_spans == 1
    for body in (
        b'{"a":' * 100_000,
        b"[" * 1_000_000,
        b'{"resourceMetrics":[{"resource":{"attributes":[{"key":"a","value":'
        + b'{"arrayValue":{"values":[' * 2_000 + b"]}}" * 2_000 + b"}]}}]}",
    ):  # fmt: skip
        assert victim.attack(body, JSON).status_code == 400


def test_json_that_is_large_in_memory(victim: Victim) -> None:
    held = forget_peak()
    inside = otlp_bodies.LIMIT_PLAIN - 100
    for body in (
        b'{"resourceMetrics":[' + b"{}," * (inside // 3) + b"{}]}",
        b'{"x":[' + b"[]," * (inside // 3) + b"[]]}",
        b'{"x":' + b"9" * inside + b"}",
        json.dumps({"resourceMetrics": [{"scopeMetrics": [{"metrics": [{}] * 200_000}]}]}).encode(),
    ):
        victim.attack(body, JSON)
    assert peak_bytes() - held < 128 * otlp_bodies.LIMIT_PLAIN


def test_bodies_over_the_limit(victim: Victim) -> None:
    for kind in (PROTOBUF, JSON, PACKED):
        assert victim.attack(bytes(otlp_bodies.LIMIT_BODY + 1), kind).status_code == 413
