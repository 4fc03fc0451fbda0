"""The life of an incident: one table of transitions, and the timing that picks the signal. Pure.

Guarantee: an incident is resolved by itself only when none of its alerts has fired for `SETTLE`; one that comes back
within `REOPEN` is the same incident again; a merged one is over for good.
"""

from datetime import datetime, timedelta
from enum import StrEnum

from controlplane.contract.errors import Conflict
from controlplane.contract.on_call.incidents import IncidentState

SETTLE = timedelta(minutes=5)
"""All alerts must be over for so long: a fault that flaps is one incident, not many."""
REOPEN = timedelta(minutes=30)
"""The same alert so soon after the end is the same incident."""


class Signal(StrEnum):
    """What happens to an incident."""

    FIRE = "fire"  # An alert of it fired.
    ACKNOWLEDGE = "acknowledge"  # Somebody looks at it.
    SETTLE = "settle"  # No alert of it has fired for long enough.
    CLOSE = "close"  # Somebody says that it is over.
    MERGE = "merge"  # Another incident takes its alerts.


_OPEN, _ACKNOWLEDGED = IncidentState.OPEN, IncidentState.ACKNOWLEDGED
_RESOLVED, _MERGED = IncidentState.RESOLVED, IncidentState.MERGED

TRANSITIONS: dict[tuple[IncidentState, Signal], IncidentState] = {
    (_OPEN, Signal.FIRE): _OPEN,
    (_ACKNOWLEDGED, Signal.FIRE): _ACKNOWLEDGED,
    (_RESOLVED, Signal.FIRE): _OPEN,
    (_OPEN, Signal.ACKNOWLEDGE): _ACKNOWLEDGED,
    (_ACKNOWLEDGED, Signal.ACKNOWLEDGE): _ACKNOWLEDGED,
    (_OPEN, Signal.SETTLE): _RESOLVED,
    (_ACKNOWLEDGED, Signal.SETTLE): _RESOLVED,
    (_OPEN, Signal.CLOSE): _RESOLVED,
    (_ACKNOWLEDGED, Signal.CLOSE): _RESOLVED,
    (_RESOLVED, Signal.CLOSE): _RESOLVED,
    (_OPEN, Signal.MERGE): _MERGED,
    (_ACKNOWLEDGED, Signal.MERGE): _MERGED,
    (_RESOLVED, Signal.MERGE): _MERGED,
}
"""Every other pair is refused."""


def after(state: IncidentState, signal: Signal) -> IncidentState:
    """The state after it. Raises `Conflict` where that cannot happen to an incident in this state."""
    found = TRANSITIONS.get((state, signal))
    if found is None:
        raise Conflict(f"an incident that is {state.value} cannot be told to {signal.value}", field="incident_id")
    return found


def quiet_from(firing: int, ends: list[datetime], before: datetime | None) -> datetime | None:
    """Since when none of its alerts fires; None while one does. `ends`: when its alerts ended."""
    if firing:
        return None
    return before or max(ends, default=None)


def has_settled(quiet_since: datetime | None, now: datetime) -> bool:
    return quiet_since is not None and now - quiet_since >= SETTLE
