"""Rows of metrics, nodes and label sets: found, or made in the caller's transaction.

Guarantee: rows are made in one order everywhere, and whoever comes second finds the first one's: several replicas may
make the same names at the same moment.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection, Table, select, tuple_
from sqlmodel import Session, SQLModel

from controlplane.contract.metrics import NODE, TENANT, MetricKind
from controlplane.telemetry.journal import label_use
from controlplane.telemetry.otlp.labels import canonical, hash64
from controlplane.telemetry.reports.many_rows import insert_missing
from controlplane.telemetry.tables import LabelsRow, MetricRow, NodeRow

MetricKey = tuple[str, MetricKind]
BLOCK_NODES = 128
CHUNK = 500


class LabelSet(NamedTuple):
    """A row of `telemetry_labels`, without its text. `fleet_id`: its own id where it names no node. `used_ns`: its
    mark, see `label_use`."""

    id: int
    key: int
    fleet_id: int
    block: int
    tenant: str
    used_ns: int


class NewSet(NamedTuple):
    """A label set that may have to be made."""

    key: int
    text: str
    labels: Mapping[str, str]

    @property
    def tenant(self) -> str:
        return self.labels.get(TENANT.label, "")

    @property
    def node(self) -> str | None:
        return self.labels.get(NODE.label)


def key_of(text: str) -> int:
    """The key of canonical labels. Two of n sets share one with a chance of n**2 / 2**65."""
    return hash64(text.encode())


def new_set(text: str) -> NewSet:
    return NewSet(key_of(text), text, orjson.loads(text))


def metrics(session: Session, keys: Iterable[MetricKey]) -> dict[MetricKey, int]:
    """Ids of metrics that are there."""
    table = _table(MetricRow)
    wanted = sorted((name, kind.value) for name, kind in keys)
    found: dict[MetricKey, int] = {}
    for part in _chunks(wanted):
        query = select(table.c.id, table.c.name, table.c.kind).where(tuple_(table.c.name, table.c.kind).in_(part))
        found.update({(name, MetricKind(kind)): number for number, name, kind in session.execute(query).all()})
    return found


def make_metrics(session: Session, keys: Iterable[MetricKey]) -> dict[MetricKey, int]:
    """Ids of these metrics, made where they are missing."""
    wanted = sorted(keys)
    insert_missing(session, _table(MetricRow), [{"name": name, "kind": kind.value} for name, kind in wanted])
    return metrics(session, wanted)


def all_metrics(connection: Connection) -> dict[MetricKey, int]:
    table = _table(MetricRow)
    rows = connection.execute(select(table.c.id, table.c.name, table.c.kind))
    return {(name, MetricKind(kind)): number for number, name, kind in rows}


def label_sets(session: Session, keys: Iterable[int]) -> dict[int, LabelSet]:
    """The sets that are there, by key."""
    table = _table(LabelsRow)
    found = {}
    for part in _chunks(sorted(keys)):
        for row in session.execute(select(*_of_set(table)).where(table.c.key.in_(part))).all():
            found[row[1]] = _label_set(row)
    return found


def used_label_sets(session: Session, keys: Iterable[int], now_ns: int) -> dict[int, LabelSet]:
    """The sets that are there, by key; marked as used where their marks are old, and with them their fleet sets."""
    found = label_sets(session, keys)
    old = {key: one for key, one in found.items() if label_use.is_old(one.used_ns, now_ns)}
    there = label_use.mark(session, sorted({i for one in old.values() for i in (one.id, one.fleet_id)}), now_ns)
    for key, one in old.items():
        if one.id in there:
            found[key] = one._replace(used_ns=now_ns)
        else:
            del found[key]  # Another replica has just forgotten it.
    return found


def make_label_sets(session: Session, sets: Iterable[NewSet], now_ns: int) -> dict[int, LabelSet]:
    """These sets by key, made where they are missing; and with them those without `node` that belong to them."""
    wanted = {one.key: one for one in sets}
    with_node = {key: one for key, one in wanted.items() if one.node is not None}
    fleet_of = {key: new_set(_without_node(one)) for key, one in with_node.items()}
    fleet_sets = {one.key: one for one in (*fleet_of.values(), *(wanted[key] for key in wanted.keys() - with_node))}
    made = used_label_sets(session, fleet_sets, now_ns)
    missing = [one for key, one in sorted(fleet_sets.items()) if key not in made]
    insert_missing(session, _table(LabelsRow), [_values(one, None, 0, now_ns) for one in missing])
    made |= label_sets(session, [one.key for one in missing])
    numbers = _make_nodes(session, {one.node for one in with_node.values() if one.node is not None})
    rows = [
        _values(one, made[fleet_of[key].key].id, numbers[one.node] // BLOCK_NODES, now_ns)
        for key, one in sorted(with_node.items())
        if one.node is not None
    ]
    insert_missing(session, _table(LabelsRow), rows)
    return made | label_sets(session, with_node)


def newer_label_sets(connection: Connection, above: int) -> Iterable[LabelSet]:
    """The sets with an id above one, in their order."""
    table = _table(LabelsRow)
    query = select(*_of_set(table)).where(table.c.id > above).order_by(table.c.id)
    return (_label_set(row) for row in connection.execute(query))


def label_sets_by_id(connection: Connection, ids: Sequence[int]) -> dict[int, tuple[LabelSet, str]]:
    """The sets with these ids, and their text."""
    table = _table(LabelsRow)
    found = {}
    for part in _chunks(ids):
        for *row, text in connection.execute(select(*_of_set(table), table.c.labels).where(table.c.id.in_(part))):
            found[row[0]] = (_label_set(row), text)
    return found


def nodes(connection: Connection | Session, names: Iterable[str]) -> dict[str, int]:
    """The numbers, from 0, of nodes that are there."""
    table = _table(NodeRow)
    found: dict[str, int] = {}
    for part in _chunks(sorted(names)):
        query = select(table.c.id, table.c.name).where(table.c.name.in_(part))
        found.update({name: number - 1 for number, name in connection.execute(query).all()})
    return found


def _make_nodes(session: Session, names: Iterable[str]) -> dict[str, int]:
    """The numbers of these nodes, made where they are missing."""
    wanted = set(names)
    found = nodes(session, wanted)
    missing = sorted(wanted - found.keys())
    insert_missing(session, _table(NodeRow), [{"name": name} for name in missing])
    return found | nodes(session, missing)


def _values(one: NewSet, fleet_id: int | None, block: int, now_ns: int) -> dict[str, Any]:
    names = {"key": one.key, "labels": one.text, "tenant": one.tenant}
    return {**names, "fleet_id": fleet_id, "block": block, "used_ns": now_ns}


def _without_node(one: NewSet) -> str:
    return canonical({name: value for name, value in one.labels.items() if name != NODE.label})


def _of_set(table: Table) -> tuple[Any, ...]:
    return table.c.id, table.c.key, table.c.fleet_id, table.c.block, table.c.tenant, table.c.used_ns


def _label_set(row: Sequence[Any]) -> LabelSet:
    number, key, fleet_id, block, tenant, used_ns = row
    return LabelSet(number, key, number if fleet_id is None else fleet_id, block, tenant, used_ns)


def _table(of: type[SQLModel]) -> Table:
    return SQLModel.metadata.tables[str(of.__tablename__)]


def _chunks(items: Sequence[Any]) -> Iterable[Sequence[Any]]:
    return (items[start : start + CHUNK] for start in range(0, len(items), CHUNK))
