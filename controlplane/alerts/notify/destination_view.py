"""A destination as the API shows it: without its secrets, with how it does."""

from collections.abc import Mapping
from datetime import datetime

from controlplane.alerts.notify.letters import bucket_of
from controlplane.alerts.notify.token_bucket import next_at
from controlplane.alerts.tables import DestinationRow
from controlplane.contract.bodies.alerts import Silenced
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.contract.channels.destinations import DeliveryState, Destination, DestinationHealth


def destination_view(row: DestinationRow, counted: Mapping[tuple[int, str], int], now: datetime) -> Destination:
    """Without its secrets, only whether there are any; of the URL scheme and host. counted: letters, as `counts`."""
    assert row.id is not None
    return Destination(
        id=row.id,
        name=row.name,
        kind=DestinationKind(row.kind),
        url=row.shown,
        signed=bool(row.secret),
        login=row.login,
        recipients=row.recipients,
        sender=row.sender,
        acknowledges=bool(row.callback_secret),
        per_minute=row.per_minute,
        title_template=row.title_template,
        text_template=row.text_template,
        only=None if row.only is None else Silenced.model_validate(row.only),
        enabled=row.enabled,
        created_at=row.created_at,
        origin=row.origin,
        health=_health(row, counted, now),
    )


def _health(row: DestinationRow, counted: Mapping[tuple[int, str], int], now: datetime) -> DestinationHealth:
    waiting = counted.get((row.id or 0, DeliveryState.WAITING.value), 0)
    resting = row.rests_until is not None and row.rests_until > now
    return DestinationHealth(
        last_success_at=row.succeeded_at,
        failures_in_row=row.failures,
        last_error=row.last_error,
        rests_until=row.rests_until if resting else None,
        waiting=waiting,
        dead=counted.get((row.id or 0, DeliveryState.GIVEN_UP.value), 0),
        template_failures=row.template_failures,
        held_by_rate_until=_held_until(row, now) if waiting and not resting else None,
    )


def _held_until(row: DestinationRow, now: datetime) -> datetime | None:
    return None if row.per_minute is None else next_at(bucket_of(row), row.per_minute, now)
