"""The life of a study (pure): which state may follow which, and when a silent worker loses its lease."""

from datetime import datetime, timedelta

from controlplane.contract.bodies.studies import StudyState
from controlplane.contract.errors import Conflict

LEASE_S = 60.0
"""A worker that has not been heard of for this long has lost the study."""

MAX_ATTEMPTS = 4
"""A study goes back to the queue at most three times; a fourth lost worker fails it."""

TRANSITIONS: dict[StudyState, frozenset[StudyState]] = {
    StudyState.QUEUED: frozenset({StudyState.RUNNING, StudyState.CANCELLED}),
    StudyState.RUNNING: frozenset({StudyState.QUEUED, StudyState.FINISHED, StudyState.FAILED, StudyState.CANCELLED}),
    StudyState.FINISHED: frozenset(),
    StudyState.FAILED: frozenset(),
    StudyState.CANCELLED: frozenset(),
}
"""RUNNING to QUEUED is an expired lease."""

ENDED = frozenset(state for state, following in TRANSITIONS.items() if not following)


def move(current: StudyState, wanted: StudyState) -> StudyState:
    """The wanted state. Raises `Conflict` when it may not follow the current one."""
    if wanted not in TRANSITIONS[current]:
        raise Conflict(f"a {current.value} study cannot become {wanted.value}", field="state", state=current.value)
    return wanted


def lease_deadline(now: datetime) -> datetime:
    """A lease last renewed before this moment has expired."""
    return now - timedelta(seconds=LEASE_S)


def after_lost_lease(attempt: int) -> StudyState:
    """Where a running study goes when its worker of attempt number `attempt` (from 1) has fallen silent."""
    return StudyState.FAILED if attempt >= MAX_ATTEMPTS else StudyState.QUEUED
