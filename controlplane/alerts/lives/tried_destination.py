"""A destination tried out: a made-up alert is sent to it now, once, signed like a real one."""

from datetime import datetime

from controlplane.alerts import store
from controlplane.alerts.lives.fingerprint import fingerprint
from controlplane.alerts.notify.delivery import DEADLINE_S, send_test
from controlplane.contract.bodies.alerts import Alert, AlertState, Delivery, DeliveryState, Severity
from controlplane.contract.clock import Clock
from controlplane.db import Database
from controlplane.outgoing import new_client


def try_destination(
    database: Database, destination_id: int, clock: Clock, external_url: str, *, actor: str
) -> Delivery:
    """What came of it. The answer's ids are 0: nothing is kept but a line in the ledger.

    No transaction is open while somebody else's server thinks about its answer.
    """
    now = clock()
    with database.read_session() as session:
        destination = store.destination_row(session, destination_id)
        session.expunge(destination)
    with new_client(DEADLINE_S) as http:
        attempt = send_test(http, destination, _made_up(now), now, external_url)
    answered_at = clock()
    with database.session() as session:
        store.note_test(session, destination, attempt.error, actor=actor, now=answered_at)
    return Delivery(
        id=0,
        alert_id=0,
        destination_id=destination_id,
        state=DeliveryState.DELIVERED if attempt.error is None else DeliveryState.GIVEN_UP,
        status=AlertState.FIRING.value,
        attempts=1,
        last_error=attempt.error,
        delivered_at=answered_at if attempt.error is None else None,
    )


def _made_up(now: datetime) -> Alert:
    labels = {"kind": "test"}
    return Alert(
        id=0,
        fingerprint=fingerprint(0, labels),
        rule_id=0,
        rule="tailwright test",
        state=AlertState.FIRING,
        severity=Severity.TICKET,
        labels=labels,
        summary="This is a test of the webhook; nothing is wrong.",
        started_at=now,
        fired_at=now,
    )
