"""A sealed tally as a report: packed, or as OTLP where an engine told buckets of its own.

Guarantee: whatever the tally counted is in the report, under the window of its own time, exactly; what was not counted
is absent. Who a report is, its stream and ordinal, is given by the spool and part of it: the packed form carries both
inside, the OTLP form the ordinal in its points (see `otlp_report`) and both in the header that it is sent with.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agents.agent.reports import otlp_report
from agents.agent.reports.body import Body
from agents.agent.reports.clock_offset import ClockReading
from agents.agent.reports.latency_series import Distribution
from agents.agent.reports.report_table import ReportTable
from agents.agent.reports.tally import SeriesKey, Tally, WindowTally
from agents.host.snapshot import Figures
from controlplane.contract import metrics
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.histogram import AXIS_MIN
from controlplane.contract.metrics import Metric, MetricKind
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.packed_report import (
    STREAM_BYTES,
    PackedHistogram,
    PackedNumber,
    PackedReport,
    Section,
)

SERVICE_NAME = "tailwright-agent"


@dataclass(frozen=True)
class NodeIdentity:
    """Whose report it is; `region` is empty where none was set. `trial`: what it serves are experiments."""

    node: str
    pool: str
    region: str = ""
    trial: bool = False


@dataclass(frozen=True)
class AgentCounts:
    """What the agent itself measured: of itself, and of the host by window; `clock` is None where it is not known."""

    spool_depth: int = 0
    spool_dropped: int = 0
    clock: ClockReading | None = None
    host: Mapping[int, Figures] = field(default_factory=dict)


def resource_attributes(identity: NodeIdentity) -> dict[str, str]:
    """The resource that every report of this node carries, names on the wire to values."""
    return {metrics.NODE.name: identity.node, metrics.POOL.name: identity.pool, "service.name": SERVICE_NAME}


def body_of(
    tally: Tally, identity: NodeIdentity, stream: bytes, ordinal: int, counts: AgentCounts, table: ReportTable
) -> Body:
    """The report as it is spooled. Raises ValueError where a count or a value fits no column of it."""
    if any(window.buckets for window in tally.windows.values()):
        return Body.otlp(encode_metrics(tally, identity, ordinal, counts))
    return Body.packed(packed_report.encode(packed(tally, identity, stream, ordinal, counts, table)))


def encode_metrics(tally: Tally, identity: NodeIdentity, ordinal: int, counts: AgentCounts) -> bytes:
    """The serialized ExportMetricsServiceRequest of a tally, under the report's ordinal."""
    report = packed(tally, identity, bytes(STREAM_BYTES), ordinal, counts)
    request = otlp_report.request_of(report)
    for number, window in sorted(tally.windows.items()):
        for (metric, key), buckets in window.buckets.items():
            labels = labels_of(key, tally.model, identity)
            otlp_report.add_buckets(request, metric, labels, buckets, number, ordinal)
    return request.SerializeToString()


def packed(
    tally: Tally,
    identity: NodeIdentity,
    stream: bytes,
    ordinal: int,
    counts: AgentCounts,
    table: ReportTable | None = None,
) -> PackedReport:
    """All of a tally but what the engine told in buckets of its own. `table`: the one of the reports before."""
    table = table or ReportTable()
    table.begin()
    own = tally.own_window
    sections = [
        _section(tally, number, identity, table, counts if number == own else None, counts.host.get(number))
        for number in sorted({*tally.windows, *counts.host, own})
    ]
    return PackedReport(
        stream, ordinal, resource_attributes(identity), table.metrics, table.label_sets, tuple(sections)
    )


def _section(
    tally: Tally,
    number: int,
    identity: NodeIdentity,
    table: ReportTable,
    counts: AgentCounts | None,
    host: Figures | None,
) -> Section:
    """One window; `counts` for the one that the agent speaks of itself in, `host` where the host was measured."""
    window = tally.windows.get(number, WindowTally())
    histograms: list[PackedHistogram] = []
    sums: list[PackedNumber] = []
    gauges: list[PackedNumber] = []

    def add(metric: Metric, labels: Mapping[str, str], value: float) -> None:
        target = gauges if metric.kind is MetricKind.GAUGE else sums
        target.append(PackedNumber(table.metric(metric), table.labels(labels), float(value)))

    for key, series in window.distributions.items():
        place = table.labels(labels_of(key, tally.model, identity))
        histograms.extend(_histogram(found, table.metric(metric), place) for metric, found in series.items())
    for (metric, key, value), amount in window.sums.items():
        labels = labels_of(key, tally.model, identity)
        add(metric, {**labels, metrics.SUMMED_BY[metric].name: value} if value else labels, amount)
    for (metric, key), level in window.gauges.items():
        add(metric, labels_of(key, tally.model, identity), level)
    for revision, e2e_s in window.e2e_s.items():
        if e2e_s > 0:
            labels = labels_of((revision, "", "", ""), tally.model, identity)
            add(metrics.UNACCOUNTED_SHARE, labels, window.unaccounted_s[revision] / e2e_s)
    if counts is not None:
        add(metrics.SPOOL_DEPTH, {}, counts.spool_depth)
        if tally.missed:
            add(metrics.EVENTS_MISSED, {}, tally.missed)
        if counts.spool_dropped:
            add(metrics.SPOOL_DROPPED, {}, counts.spool_dropped)
        if counts.clock is not None:
            add(metrics.CLOCK_OFFSET, {}, counts.clock.offset_s)
            add(metrics.CLOCK_OFFSET_ERROR, {}, counts.clock.error_s)
    for metric, measured in (host or {}).items():
        add(metric, {}, measured)
    return Section(number, tuple(histograms), tuple(sums), tuple(gauges))


def labels_of(key: SeriesKey, model: str, identity: NodeIdentity) -> dict[str, str]:
    """Attribute names on the wire to values; what does not apply is left out."""
    revision, bucket, cache, tenant = key
    found = {metrics.REVISION.name: str(revision)}
    for attribute, value in (
        (metrics.MODEL, model),
        (metrics.PROMPT_BUCKET, bucket),
        (metrics.CACHE_CLASS, cache),
        (metrics.TENANT, tenant),
        (metrics.REGION, identity.region),
        (metrics.ROLE, NodeRole.TRIAL.value if identity.trial else ""),
    ):
        if value:
            found[attribute.name] = value
    return found


def _histogram(distribution: Distribution, metric: int, labels: int) -> PackedHistogram:
    low, counts = distribution.dense()
    return PackedHistogram(
        metric,
        labels,
        low - AXIS_MIN if counts else 0,
        tuple(counts),
        distribution.zero_count,
        distribution.total,
        distribution.minimum,
        distribution.maximum,
    )
