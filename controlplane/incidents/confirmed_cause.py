"""The cause that people confirmed, from an incident's entries in the ledger. Pure."""

from collections.abc import Iterable

from controlplane.alerts.diagnosis.confirmed_causes import CAUSE_CONFIRMED
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.on_call.incidents import ConfirmedCause


def confirmed(incident_id: int, entries: Iterable[LedgerEntry]) -> ConfirmedCause | None:
    """The last that was said of this incident. entries: the oldest first."""
    mine = [one for one in entries if one.kind == CAUSE_CONFIRMED and one.subject == f"incident/{incident_id}"]
    if not mine:
        return None
    last = mine[-1]
    cause, comment = CauseKind(last.evidence["cause"]), str(last.evidence["comment"])
    return ConfirmedCause(cause=cause, comment=comment, by=last.actor, at=last.time)
