"""All letters of a destination at once: how many wait or are dead, given up, or replayed."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import exists, func, select
from sqlalchemy.orm import aliased
from sqlmodel import Session, col, update

from controlplane.alerts.notify.token_bucket import Bucket
from controlplane.alerts.tables import DeliveryRow, DestinationRow
from controlplane.contract.channels.destinations import DeadLettersReplayed, DeliveryState

WAITING, DEAD = DeliveryState.WAITING.value, DeliveryState.GIVEN_UP.value


def bucket_of(row: DestinationRow) -> Bucket | None:
    """Its rate's bucket; None while nothing was sent there."""
    return None if row.tokens is None or row.tokens_at is None else Bucket(row.tokens, row.tokens_at)


def counts(session: Session, destinations: Sequence[int]) -> dict[tuple[int, str], int]:
    """How many letters wait and are dead, by destination and state."""
    number, state = col(DeliveryRow.destination_id), col(DeliveryRow.state)
    query = select(number, state, func.count()).where(number.in_(destinations), state.in_((WAITING, DEAD)))
    return {(one, name): count for one, name, count in session.execute(query.group_by(number, state))}


def give_up(session: Session, destination_id: int, because: str) -> None:
    """All that waits for it."""
    session.execute(
        update(DeliveryRow)
        .where(col(DeliveryRow.destination_id) == destination_id, col(DeliveryRow.state) == WAITING)
        .values(state=DeliveryState.GIVEN_UP.value, last_error=because, next_attempt_at=None, leased_until=None)
        .execution_options(synchronize_session=False)
    )


def replay(session: Session, destination_id: int, only: Sequence[int] | None, now: datetime) -> DeadLettersReplayed:
    """Dead letters wait again, from now on. only: of these numbers; None: all.

    One whose alert has been told of since is passed over: what it says is not so any more, and a receiver that is told
    "firing" after "resolved" would keep open what nobody closes.
    """
    later = aliased(DeliveryRow)
    overtaken = exists().where(
        col(later.destination_id) == DeliveryRow.destination_id,
        col(later.fingerprint) == DeliveryRow.fingerprint,
        col(later.state) == DeliveryState.DELIVERED.value,
        col(later.id) > DeliveryRow.id,
    )
    dead = (col(DeliveryRow.destination_id) == destination_id) & (col(DeliveryRow.state) == DEAD)
    if only is not None:
        dead &= col(DeliveryRow.id).in_(only)
    numbers = list(session.execute(select(col(DeliveryRow.id)).where(dead, ~overtaken)).scalars())
    found = session.execute(select(func.count()).select_from(DeliveryRow).where(dead)).scalar_one()
    session.execute(
        update(DeliveryRow)
        .where(dead, ~overtaken)
        .values(state=WAITING, attempts=0, waits_since=now, next_attempt_at=now, leased_until=None)
        .execution_options(synchronize_session=False)
    )
    return DeadLettersReplayed(replayed=len(numbers), passed_over=found - len(numbers))
