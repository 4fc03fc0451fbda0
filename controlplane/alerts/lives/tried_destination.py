"""A destination tried out: a made-up alert is sent to it now, once, signed like a real one."""

from datetime import datetime, timedelta

from controlplane import ledger
from controlplane.alerts.channels import payload
from controlplane.alerts.channels.channel import Letter, Status
from controlplane.alerts.channels.registry import CHANNELS
from controlplane.alerts.lives.fingerprint import fingerprint
from controlplane.alerts.notify.delivery import address_of
from controlplane.alerts.notify.one_attempt import Carriers, attempt
from controlplane.alerts.notify.outbox import News, notification_of
from controlplane.alerts.tables import DestinationRow
from controlplane.contract.bodies.alerts import Alert, AlertState, Severity
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.contract.channels.destinations import Delivery, DeliveryState
from controlplane.contract.clock import Clock
from controlplane.db import Database
from controlplane.db.rows import existing
from controlplane.keys import Keyring
from controlplane.outgoing import AddressPolicy

OVER_AFTER = timedelta(minutes=5)
"""An Alertmanager closes a test by itself then: long enough to be sent on, and nobody has to close it."""


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
    with database.read_session() as session:
        row = existing(session, DestinationRow, number, "destination", field="destination_id")
        name, url, secret, login = row.name, row.url, row.secret, row.login
        kind = DestinationKind(row.kind)
        alert = _made_up(now, None if kind is not DestinationKind.ALERTMANAGER else now + OVER_AFTER)
        body = CHANNELS[kind].render(notification_of(News(alert, Status.FIRING, now, external_url), row))
    letter = Letter(0, kind, Status.FIRING, alert.fingerprint, body, payload.idempotency_key(alert, "test"))
    address = address_of(number, url, secret, login, keyring)
    # No transaction is open while somebody else's server thinks about its answer.
    carriers = Carriers.new(policy)
    try:
        error = attempt(carriers, letter, address, now).error
    finally:
        carriers.close()
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


def _made_up(now: datetime, ends_at: datetime | None) -> Alert:
    labels = {"kind": "test"}
    return Alert(
        id=0,
        fingerprint=fingerprint(0, labels),
        rule_id=0,
        rule="tailwright test",
        state=AlertState.FIRING,
        severity=Severity.TICKET,
        labels=labels,
        summary="This is a test of the destination; nothing is wrong.",
        started_at=now,
        fired_at=now,
        resolved_at=ends_at,
    )
