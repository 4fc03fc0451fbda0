"""The clocks of the fleet's nodes, asked of the API by its typed client."""

from controlplane.client import Client
from controlplane.contract.metrics import CLOCK_OFFSET, CLOCK_OFFSET_ERROR, NODE
from controlplane.contract.reports.node_clock import NodeClock

WINDOW = "5m"


def node_clocks(client: Client, node: str | None = None) -> dict[str, NodeClock]:
    """By node, or of one node; those that told nothing in the last five minutes are absent."""
    offsets, errors = (
        {
            series.labels.get(NODE.label, ""): series.value
            for series in client.scalars(metric.short, window=WINDOW, by=(NODE.label,), node=node).series
        }
        for metric in (CLOCK_OFFSET, CLOCK_OFFSET_ERROR)
    )
    return {name: NodeClock(offset_s, errors[name]) for name, offset_s in offsets.items() if name in errors}
