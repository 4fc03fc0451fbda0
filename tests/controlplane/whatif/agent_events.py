"""What an agent beside an engine would have sent of these events, into a store."""

import hashlib
from collections.abc import Iterable

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from agents.agent.reports.accumulator import Accumulator
from agents.agent.reports.report import AgentCounts, NodeIdentity, packed
from agents.agent.reports.report_table import ReportTable
from agents.agent.reports.request_spans import encode_spans
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.engine_event import EngineEvent
from controlplane.telemetry.store import TelemetryStore
from tests.controlplane.telemetry.ingesting import ingest_packed, ingest_traces


def report(store: TelemetryStore, events: Iterable[EngineEvent], node: str, pool: str) -> None:
    made = Accumulator(None, 5.0)
    made.hello({"kind": "hello", "boot": "b", "oldest": 1, "model": "m"})
    for event in events:
        made.count(event)
    made.seal()
    stream = hashlib.sha256(node.encode()).digest()[:16]
    identity, table = NodeIdentity(node, pool), ReportTable()
    for ordinal, tally in enumerate(made.take(), 1):
        body = packed_report.encode(packed(tally, identity, stream, ordinal, AgentCounts(), table))
        assert ingest_packed(store, body).accepted
        if spans := encode_spans(tally, identity, b"k" * 32):
            assert ingest_traces(store, ExportTraceServiceRequest.FromString(spans)).accepted
