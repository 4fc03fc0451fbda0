"""Rollouts as the ledger tells of them: what a diagnosis may know of how a revision came to a pool. Reads only."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select

from controlplane.contract.bodies.rollouts import ENDED, RolloutPhase, Verdict
from controlplane.ledger.tables import LedgerRow

DOMAIN = "rollout."
PHASES = {phase.value for phase in RolloutPhase}


@dataclass(frozen=True)
class RolloutRecord:
    """One rollout that has begun. `verdict` and `ended_at` are as of the moment until which the ledger was read."""

    number: int
    pool: str
    revision: int
    previous_revision: int | None
    started_at: datetime
    emergency: bool = False
    takes_back: int | None = None
    verdict: str | None = None
    ended_at: datetime | None = None
    promoted_at: datetime | None = None

    @property
    def path(self) -> str:
        """Where the dashboard shows it."""
        return f"/rollouts/{self.number}"

    @property
    def words(self) -> str:
        return f"{'emergency ' if self.emergency else ''}rollout {self.number}"


def rollouts_of(session: Session, pool: str, start: datetime, until: datetime) -> list[RolloutRecord]:
    """The rollouts of a pool of which anything was written down between start and until; the oldest first."""
    lately = select(LedgerRow.subject).where(
        col(LedgerRow.kind).startswith(DOMAIN), col(LedgerRow.time) >= start, col(LedgerRow.time) <= until
    )
    query = (
        select(LedgerRow)
        .where(col(LedgerRow.kind).startswith(DOMAIN), col(LedgerRow.subject).in_(lately), col(LedgerRow.time) <= until)
        .order_by(col(LedgerRow.id))
    )
    told: dict[str, list[LedgerRow]] = {}
    for row in session.exec(query):
        told.setdefault(row.subject, []).append(row)
    found = [_record(subject, rows) for subject, rows in told.items()]
    return [record for record in found if record is not None and record.pool == pool]


def _record(subject: str, rows: list[LedgerRow]) -> RolloutRecord | None:
    """None for one that has not begun."""
    said: Mapping[str, LedgerRow] = {row.kind.removeprefix(DOMAIN): row for row in rows}
    created, started = said.get("created"), said.get("started")
    if created is None or started is None:
        return None
    spec: dict[str, Any] = created.evidence.get("spec", {})
    emergency = bool(spec.get("emergency"))
    verdicts = [row.evidence.get("verdict") for name, row in said.items() if name in PHASES]
    ended = [row.time for name, row in said.items() if name in ENDED]
    promoted = said.get(RolloutPhase.PROMOTED)
    return RolloutRecord(
        number=int(subject.partition("/")[2]),
        pool=str(spec.get("pool", "")),
        revision=int(spec.get("revision", 0)),
        previous_revision=started.evidence.get("previous_revision"),
        started_at=started.time,
        emergency=emergency,
        takes_back=spec.get("takes_back"),
        verdict=next((verdict for verdict in reversed(verdicts) if verdict), Verdict.UNJUDGED if emergency else None),
        ended_at=max(ended, default=None),
        promoted_at=None if promoted is None else promoted.time,
    )
