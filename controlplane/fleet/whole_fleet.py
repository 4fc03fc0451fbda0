"""The whole fleet as columns: what lists and overviews of thousands of nodes need, without reading each node whole.

Guarantee: one row a node by name, rising, with the same words that `node_view` has for it. Knobs that thousands of
nodes report alike are read once, labels that nodes have alike are told once.
"""

import hashlib
import json
from functools import lru_cache
from typing import Any

from sqlalchemy import String, cast
from sqlmodel import Session, col, select

from controlplane.contract.bodies.nodes import ConfigStatus, FleetColumns, NodeRole, state_of
from controlplane.contract.knobs import canonical_json
from controlplane.fleet.running import MOST_READ, RUNS, running
from controlplane.fleet.tables import NodeRow
from controlplane.fleet.wishes import Wishes

DIGITS = 12
"""Of a configuration's hash: enough to tell a fleet's apart, few enough to be read."""


def fleet_columns(session: Session, pool: str | None = None) -> FleetColumns:
    """All nodes, or those of one pool."""
    of = NodeRow
    named = (of.node, of.pool, of.role, of.backend, of.model, of.connected, of.healthy, of.health_detail)
    told = (of.override_revision, of.cache_reset, of.config_hash, of.config_status, of.drift_since)
    newest = (of.unaccounted_share, of.last_seen, *RUNS, cast(of.labels, String))
    query = select(*named, *told, *newest).order_by(col(of.node))  # type: ignore[call-overload]
    if pool is not None:
        query = query.where(of.pool == pool)
    wishes = Wishes(session)
    columns: dict[str, list[Any]] = {name: [] for name in FleetColumns.model_fields if name != "label_sets"}
    label_sets: dict[str, int] = {}
    for row in session.exec(query):
        node, of_pool, role, backend, model, connected, healthy, detail = row[: len(named)]
        override, cache_reset, acknowledged, status, drift_since = row[len(named) : len(named) + len(told)]
        unaccounted, last_seen, *runs_texts, labels = row[len(named) + len(told) :]
        mark = wishes.mark(NodeRole(role), of_pool, override, cache_reset)
        wanted = "" if mark is None else wishes.of_mark(mark).hash
        revision, config_hash = runs(*runs_texts)
        values = (
            *(node, of_pool, role, backend, model, state_of(connected, healthy, detail)),
            status == ConfigStatus.FAILED.value and acknowledged == wanted,
            *(revision, mark.revision if mark else None, config_hash, drift_since, unaccounted, last_seen),
            label_sets.setdefault(labels, len(label_sets)),
        )
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return FleetColumns.model_validate({**columns, "label_sets": [json.loads(text) for text in label_sets]})


@lru_cache(maxsize=MOST_READ)
def runs(revision: str | None, knobs: str | None, declared: str | None = None) -> tuple[int | None, str]:
    """Revision and hash of the knobs in a stored effective configuration, of which `RUNS` are given."""
    found = running(revision, knobs, declared)
    if found is None:
        return None, ""
    return found.revision, hashlib.sha256(canonical_json(found.knobs).encode()).hexdigest()[:DIGITS]
