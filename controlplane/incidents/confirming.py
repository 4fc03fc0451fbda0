"""The cause of an incident as people found it: written in the ledger, where the ranking of causes learns from it.

Guarantee: the last word counts; the same said again is not written again.
"""

from datetime import datetime

from sqlmodel import Session

from controlplane import ledger
from controlplane.alerts.diagnosis.confirmed_causes import CAUSE_CONFIRMED
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.on_call.incidents import IncidentCause
from controlplane.incidents import store


def confirm(session: Session, incident_id: int, wanted: IncidentCause, *, actor: str, now: datetime) -> None:
    """`unknown`: none of those that were named. Raises `NotFound`."""
    store.locked(session, incident_id)
    found = store.detail(session, incident_id, now)
    said = found.confirmed_cause
    if said is not None and (said.cause, said.comment) == (wanted.cause, wanted.comment):
        return
    named = [str(cause.get("cause", "")) for cause in found.causes]
    words = "none of those named" if wanted.cause is CauseKind.UNKNOWN else wanted.cause.value.replace("_", " ")
    message = f"the cause was {words}" + (f": {wanted.comment}" if wanted.comment else "")
    told = {"cause": wanted.cause.value, "named": named, "comment": wanted.comment}
    ledger.append(session, now, actor, CAUSE_CONFIRMED, f"incident/{incident_id}", message, **told)
