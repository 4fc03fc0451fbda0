"""A destination tried out: a made-up alert is sent to it now, once, signed like a real one."""

from datetime import datetime

from controlplane import ledger
from controlplane.alerts.lives.fingerprint import fingerprint
from controlplane.alerts.notify import payload
from controlplane.alerts.notify.delivery import DEADLINE_S, Letter, address_of, post
from controlplane.alerts.tables import DestinationRow
from controlplane.contract.bodies.alerts import Alert, AlertState, Delivery, DeliveryState, Severity
from controlplane.contract.clock import Clock
from controlplane.db import Database
from controlplane.db.rows import existing
from controlplane.keys import Keyring
from controlplane.outgoing import AddressPolicy, new_client


def try_destination(
    database: Database,
    keyring: Keyring,
    number: int,
    clock: Clock,
    external_url: str,
    policy: AddressPolicy,
    *,
    actor: str,
) -> Delivery:
    """What came of it. The answer's ids are 0: nothing is kept but a line in the ledger."""
    now = clock()
    alert = _made_up(now)
    with database.read_session() as session:
        row = existing(session, DestinationRow, number, "destination", field="destination_id")
        body = payload.body(alert, alert.state.value, row.name, external_url)
        key = payload.idempotency_key(alert, "test")
        name, letter = row.name, Letter(0, number, row.url, row.secret, body, key, 1, now)
    address = address_of(letter, keyring)
    # No transaction is open while somebody else's server thinks about its answer.
    with new_client(DEADLINE_S, policy) as http:
        error = post(http, letter, address, now).error
    answered_at = clock()
    with database.session() as session:
        message = f"test of destination {name!r}: {error or 'delivered'}"
        ledger.append(session, answered_at, actor, "destination.tested", f"destination/{number}", message)
    return Delivery(
        id=0,
        alert_id=0,
        destination_id=number,
        state=DeliveryState.DELIVERED if error is None else DeliveryState.GIVEN_UP,
        status=alert.state.value,
        attempts=1,
        last_error=error,
        delivered_at=answered_at if error is None else None,
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
