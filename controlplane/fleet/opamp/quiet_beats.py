"""Heartbeats that say nothing new: answered from memory, and written together.

Guarantees: a beat is answered so only where the database would answer the same: the connection's last report was taken
in whole and left nothing to be done, this is the next in its sequence, and what its node is to run was looked at within
`FRESH_S`. A report goes through the database once in `whole_s` all the same, for what only that renews (tokens). What a
beat says is written by the next `write`; of a node that another connection has taken, or that has said more since,
nothing is.
"""

import threading
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from sqlalchemy import bindparam, func, update
from sqlmodel import col

from controlplane.db.database import Database
from controlplane.fleet.opamp.wire import AgentReport, Health, Reply
from controlplane.fleet.tables import NodeRow

FRESH_S = 10.0
WHOLE_S = 3600.0


@dataclass(frozen=True)
class Heard:
    """An agent as its connection last heard it. stored_at: when a report of it last went through the database."""

    node: str
    instance_uid: str
    sequence_num: int
    healthy: bool | None
    knows_share: bool  # Of time that no stage accounts for.
    stored_at: datetime

    def follows(self, report: AgentReport, looked_at: datetime | None, now: datetime, whole_s: float = WHOLE_S) -> bool:
        """Whether the report says nothing but that its agent is there, how it is, and what it has in its spool."""
        says_more = (report.description, report.effective, report.config) != (None, None, None) or report.problems
        return (
            not says_more
            and not report.disconnecting
            and not report.wants_instance_uid
            and (report.health is None or self._is_as(report.health))
            and (report.instance_uid, report.sequence_num) == (self.instance_uid, self.sequence_num + 1)
            and looked_at is not None
            and now - looked_at <= timedelta(seconds=FRESH_S)
            and now - self.stored_at < timedelta(seconds=whole_s)
        )

    def _is_as(self, health: Health) -> bool:
        return health.healthy is self.healthy and (self.knows_share or health.unaccounted_share is None)


def heard_of(node: str, report: AgentReport, reply: Reply, before: Heard | None, now: datetime) -> Heard | None:
    """After a report that went through the database; None where it left anything to be done."""
    open_ = (reply.offer, reply.token, reply.new_instance_uid, reply.error) != (None, None, None, None)
    if open_ or reply.report_full_state:
        return None
    healthy, knows_share = (None, False) if before is None else (before.healthy, before.knows_share)
    if report.health is not None:
        healthy = report.health.healthy
        knows_share = knows_share or report.health.unaccounted_share is not None
    return Heard(node, report.instance_uid, report.sequence_num, healthy, knows_share, now)


@dataclass(frozen=True)
class _Beat:
    """What is not yet written of a connection."""

    node: str
    sequence_num: int
    at: datetime
    health: Health | None


class QuietBeats:
    """Beats that wait to be written. Any thread."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Beat] = {}  # By connection: only its newest beat is of use.
        self._lock = threading.Lock()

    def take(self, connection: str, heard: Heard, report: AgentReport, now: datetime) -> Heard:
        """Keep the beat of an agent that `follows`; returns the agent as it is heard now."""
        with self._lock:
            before = self._waiting.get(connection)
            health = report.health or (before.health if before is not None else None)
            self._waiting[connection] = _Beat(heard.node, report.sequence_num, now, health)
        return replace(heard, sequence_num=report.sequence_num)

    def write(self, database: Database) -> None:
        """All that wait, in one transaction; after a failure they wait on."""
        with self._lock:
            written = dict(self._waiting)
        if not written:
            return
        with database.session() as session:
            session.connection().execute(_WRITE, [_columns(name, beat) for name, beat in written.items()])
        with self._lock:
            for name, beat in written.items():
                if self._waiting.get(name) is beat:
                    del self._waiting[name]


_WRITE = (
    update(NodeRow)
    .where(
        col(NodeRow.node) == bindparam("of_node"),
        col(NodeRow.connection) == bindparam("of_connection"),
        col(NodeRow.last_seen) < bindparam("at"),
    )
    .values(
        last_seen=bindparam("at"),
        sequence_num=bindparam("sequence"),
        health_detail=func.coalesce(bindparam("detail"), col(NodeRow.health_detail)),
        unaccounted_share=func.coalesce(bindparam("share"), col(NodeRow.unaccounted_share)),
    )
)


def _columns(connection: str, beat: _Beat) -> dict[str, object]:
    return {
        "of_node": beat.node,
        "of_connection": connection,
        "at": beat.at,
        "sequence": beat.sequence_num,
        "detail": None if beat.health is None else beat.health.detail,
        "share": None if beat.health is None else beat.health.unaccounted_share,
    }
