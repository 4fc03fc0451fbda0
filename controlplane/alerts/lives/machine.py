"""The life of an alert: one table of transitions, and the timing that picks the signal.

Guarantee: `FIRED` is told at most once per life, `RESOLVED` only after `FIRED`; a condition that never held for
`for_s` is dropped without a word to anybody.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from controlplane.alerts.conditions.finding import Patience, Reading
from controlplane.contract.bodies.alerts import AlertState

SETTLE_WITHOUT_BREACH_S = 600.0
"""A firing alert that was neither breached nor clear for so long (no traffic, or just below the limit) resolves."""


class Signal(StrEnum):
    """A reading together with how long it has been so."""

    RAISE = "raise"  # Breach, not yet for long enough.
    CONFIRM = "confirm"  # Breach for long enough.
    WAIT = "wait"  # Nothing to conclude.
    EASE = "ease"  # Clear, not yet for long enough.
    SETTLE = "settle"  # Clear for long enough.


class Event(StrEnum):
    """What others need to be told."""

    OPENED = "opened"
    FIRED = "fired"
    RESOLVED = "resolved"
    DROPPED = "dropped"  # A pending alert came to nothing.


_PENDING, _FIRING, _RESOLVED = AlertState.PENDING, AlertState.FIRING, AlertState.RESOLVED

TRANSITIONS: dict[tuple[AlertState | None, Signal], tuple[AlertState, Event]] = {
    (None, Signal.RAISE): (_PENDING, Event.OPENED),
    (None, Signal.CONFIRM): (_FIRING, Event.FIRED),
    (_PENDING, Signal.CONFIRM): (_FIRING, Event.FIRED),
    (_PENDING, Signal.EASE): (_RESOLVED, Event.DROPPED),
    (_PENDING, Signal.SETTLE): (_RESOLVED, Event.DROPPED),
    (_FIRING, Signal.SETTLE): (_RESOLVED, Event.RESOLVED),
}
"""Every other pair leaves the state as it is and tells nobody. A resolved life is over: the next one starts at None."""


@dataclass(frozen=True)
class Life:
    """One alert's life so far. `state` None: there is no alert. The times say since when a reading has lasted."""

    state: AlertState | None = None
    breach_since: datetime | None = None
    clear_since: datetime | None = None
    hold_since: datetime | None = None


def advance(
    life: Life, reading: Reading, at: datetime, patience: Patience, since: datetime | None = None
) -> tuple[Life, Event | None]:
    """The life after one reading at event time `at`; `since` overrides when the breach began, where that is known.

    Raises ValueError when the life is over.
    """
    if life.state is _RESOLVED:
        raise ValueError("a resolved alert does not come back; start a new life")
    if reading is Reading.BREACH:
        began = life.breach_since or since or at
        life = replace(life, breach_since=began, clear_since=None, hold_since=None)
        signal = Signal.CONFIRM if (at - began).total_seconds() >= patience.for_s else Signal.RAISE
    elif reading is Reading.CLEAR:
        gone = life.clear_since or at
        life = replace(life, clear_since=gone, hold_since=None)
        signal = Signal.SETTLE if (at - gone).total_seconds() >= patience.resolve_s else Signal.EASE
    else:
        held = life.hold_since or at
        life = replace(life, hold_since=held)
        signal = Signal.SETTLE if (at - held).total_seconds() >= SETTLE_WITHOUT_BREACH_S else Signal.WAIT
    state, event = TRANSITIONS.get((life.state, signal), (life.state, None))
    if state is None:
        return Life(), None
    return replace(life, state=state), event
