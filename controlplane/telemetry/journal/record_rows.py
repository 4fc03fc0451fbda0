"""Rows of finished requests, each counted once, and the exemplars among them, in the caller's transaction."""

from collections.abc import Sequence

from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlmodel import Session, col

from controlplane.telemetry.journal import exemplar_store
from controlplane.telemetry.reports import exemplar
from controlplane.telemetry.reports.entry import Entry
from controlplane.telemetry.reports.records import Record
from controlplane.telemetry.tables import RequestRow

INSERT_CHUNK = 500
_IDENTITY = (col(RequestRow.node), col(RequestRow.request_id), col(RequestRow.arrival_ns))


def write(session: Session, entries: Sequence[Entry]) -> int:
    """Add the entries' records and exemplars. A record is who it is by node, request id and arrival: a second one is a
    repeat. Returns how many were new.
    """
    new: list[Record] = []
    owned = [(entry, record) for entry in entries for record in entry.records]
    # In one order everywhere, so that two replicas never wait for each other.
    owned.sort(key=lambda one: (one[1].node, one[1].request_id, one[1].arrival_ns))
    for start in range(0, len(owned), INSERT_CHUNK):
        part = owned[start : start + INSERT_CHUNK]
        inserted = _insert(session, [record for _, record in part])
        for entry, record in part:
            identity = (record.node, record.request_id, record.arrival_ns)
            if identity in inserted:
                inserted.remove(identity)  # A second one within this commit is a repeat as well.
                entry.accepted += 1
                new.append(record)
            else:
                entry.repeated += 1
    found = [one for record in new for one in exemplar.of_record(record)]
    found += [one for entry in entries for one in entry.exemplars]
    if found:
        exemplar_store.keep(session, found)
    return len(new)


def _insert(session: Session, records: Sequence[Record]) -> set[tuple[str, str, int]]:
    """Those that were not there, by who they are."""
    make_insert = sqlite_insert if session.get_bind().dialect.name == "sqlite" else postgresql_insert
    statement = make_insert(RequestRow).on_conflict_do_nothing().returning(*_IDENTITY)
    rows = session.execute(statement, [record._asdict() for record in records])
    return {(node, request, arrival) for node, request, arrival in rows}
