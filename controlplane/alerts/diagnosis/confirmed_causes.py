"""What the ledger tells of causes that people confirmed. Reads only."""

from sqlmodel import Session, col, select

from controlplane.alerts.diagnosis.plausibility import Confirmed
from controlplane.ledger.tables import LedgerRow

CAUSE_CONFIRMED = "incident.cause_confirmed"
"""Kind of the entry: its subject is the incident, its evidence has `cause` and `named`, the likeliest first."""
MOST = 500
"""Of the newest entries: fleets change, and so does what is plausible in them."""


def confirmed_causes(session: Session) -> list[Confirmed]:
    """The last word of each incident."""
    query = select(LedgerRow).where(LedgerRow.kind == CAUSE_CONFIRMED).order_by(col(LedgerRow.id).desc()).limit(MOST)
    last: dict[str, Confirmed] = {}
    for row in session.exec(query):
        if row.subject not in last:
            last[row.subject] = Confirmed(str(row.evidence.get("cause", "")), list(row.evidence.get("named", [])))
    return list(last.values())
