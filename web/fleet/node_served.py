"""What a node served in the page's span: its slowest requests, and the revisions that it ran."""

from dataclasses import dataclass
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.telemetry import QuantileSeries
from controlplane.contract.metrics import E2E, REVISION, TTFT
from web.fleet.node_charts import TAIL, name_of
from web.frame.page import Context
from web.frame.selection import Selection
from web.pages.requests_page import Row, address_of, drawn, tokens_per_s

MOST_REQUESTS = 8


@dataclass(frozen=True)
class Ran:
    """A revision that the node served with, runs or is wanted to run. `tail_s`: None where nothing was measured."""

    number: int
    runs: bool
    wanted: bool
    requests: int
    tail_s: float | None


def slow_requests(client: Client, selection: Selection) -> Context:
    """The slowest of the log, those on one time scale."""
    name = name_of(selection)
    asked: dict[str, Any] = {"metric": E2E.short, "order": "slowest", "limit": MOST_REQUESTS, **selection.span}
    found = client.requests(**asked, **labels_of(selection)).items
    return {
        "rows": [Row(record, address_of(record, selection), tokens_per_s(record)) for record in found],
        "chart": drawn(found),
        "all": selection.frame_query(node=name, order="slowest"),
    }


def revisions(client: Client, selection: Selection) -> Context:
    """Newest first."""
    labels = {label: value for label, value in labels_of(selection).items() if label != REVISION.label}
    answer = client.quantiles(TTFT.short, (TAIL,), by=(REVISION.label,), **selection.span, **labels)
    node = client.node(name_of(selection))
    return {"ran": ran(node, answer.series), "all": selection.frame_query(pool=node.pool)}


def ran(node: NodeView, series: list[QuantileSeries]) -> list[Ran]:
    """Those that the span has measurements of, with what runs and what is wanted now."""
    served = {int(one.labels[REVISION.label]): one for one in series if one.labels.get(REVISION.label, "").isdecimal()}
    runs = None if node.effective is None else node.effective.revision
    numbers = sorted({*served, *(one for one in (runs, node.desired_revision) if one is not None)}, reverse=True)
    return [
        Ran(
            number,
            runs=number == runs,
            wanted=number == node.desired_revision,
            requests=served[number].count if number in served else 0,
            tail_s=served[number].quantiles.get(f"{TAIL:g}") if number in served else None,
        )
        for number in numbers
    ]


def labels_of(selection: Selection) -> dict[str, Any]:
    """The bar's filters, and the page's node in place of the bar's."""
    return {**selection.filters, "node": name_of(selection), "pool": None}
