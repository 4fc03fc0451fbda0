"""What each node of a fleet measured over a span: a row a node, made for thousands of them."""

from collections.abc import Iterable
from dataclasses import replace

from controlplane.contract.bodies.telemetry import NodeFigures
from controlplane.contract.metrics import (
    HOST_PRESSURE_CPU,
    HOST_PRESSURE_IO,
    HOST_PRESSURE_MEMORY,
    KV_USAGE,
    NODE,
    REGION,
    RUNNING,
    TTFT,
    WAITING,
)
from controlplane.telemetry.question import Question
from controlplane.telemetry.reader import TelemetryReader

GAUGES = (KV_USAGE, RUNNING, WAITING, HOST_PRESSURE_CPU, HOST_PRESSURE_MEMORY, HOST_PRESSURE_IO)


def node_figures(reader: TelemetryReader, asked: Question) -> NodeFigures:
    """Of the question's span and filters; its metric and grouping are of no account."""
    by_node = replace(asked, metric=TTFT.short, by=(NODE.label,))
    (found,) = reader.sketches([by_node])
    names = [labels.get(NODE.label, "") for labels in found.labels]
    counts = dict(zip(names, found.totals.count().tolist(), strict=True))
    tails = dict(zip(names, (tail for (tail,) in found.totals.quantiles([0.99])), strict=True))
    kv_usage, running, waiting, *pressures = (
        {one.labels.get(NODE.label, ""): one.value for one in reader.scalars(replace(by_node, metric=gauge.short))}
        for gauge in GAUGES
    )
    nodes = sorted({*names, *kv_usage, *running, *waiting, *(node for of in pressures for node in of)} - {""})
    regions = _regions(reader, by_node)
    return NodeFigures(
        start=asked.span.start,
        end=asked.span.end,
        node=nodes,
        region=[regions.get(node, "") for node in nodes],
        requests=[counts.get(node, 0) for node in nodes],
        ttft_p99=[tails.get(node) for node in nodes],
        kv_usage=[kv_usage.get(node) for node in nodes],
        running=[running.get(node) for node in nodes],
        waiting=[waiting.get(node) for node in nodes],
        host_pressure=[_largest(of.get(node) for of in pressures) for node in nodes],
    )


def _regions(reader: TelemetryReader, by_node: Question) -> dict[str, str]:
    """The region that most of a node's requests tell: one that moved has two."""
    found: dict[str, tuple[float, str]] = {}
    for one in reader.counts(replace(by_node, by=(NODE.label, REGION.label))):
        node, told = one.labels.get(NODE.label, ""), (one.value, one.labels.get(REGION.label, ""))
        found[node] = max(found.get(node, (0.0, "")), told)
    return {node: region for node, (_, region) in found.items()}


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
