"""Which alerts a silence holds back."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from controlplane.alerts.channels.payload import labels_of, labels_told
from controlplane.alerts.matching.label_match import matches
from controlplane.alerts.tables import AlertRow
from controlplane.contract.bodies.alerts import Alert, AlertState, Silence

OF_NO_SILENCE = 0
"""The number of a silence that is no row: an inhibit rule holds back as long as its source fires."""


def active(silence: Silence, at: datetime) -> bool:
    """True from its start until its end, or until somebody ended it early."""
    return silence.starts_at <= at < (silence.ended_early_at or silence.ends_at)


def silenced(silences: Iterable[Silence], labels: Mapping[str, str], at: datetime) -> bool:
    """True when any silence that is active at `at` matches the labels."""
    return holding(silences, labels, at) is not None


def holding(silences: Iterable[Silence], labels: Mapping[str, str], at: datetime) -> Silence | None:
    """The first that is active at `at` and matches the labels."""
    return next((silence for silence in silences if active(silence, at) and matches(silence, labels)), None)


def is_held(row: AlertRow, silences: Iterable[Silence], at: datetime) -> bool:
    """`silenced`, of an alert's row."""
    return silenced(silences, labels_told(row.labels, row.rule, row.severity), at)


def seen_at(alert: Alert, silences: Iterable[Silence], at: datetime) -> Alert:
    """The alert as it is shown: an open one is `silenced` where a silence would hold back its news at `at`.

    Its row says whether one has: an alert that was told before its silence was made has nothing held back.
    """
    if alert.state is AlertState.RESOLVED:
        return alert
    found = holding(silences, labels_of(alert), at)
    return alert.model_copy(update={"silenced": found is not None, "held_by": found and _words(found)})


def _words(silence: Silence) -> str:
    if silence.id == OF_NO_SILENCE:
        return silence.comment
    return f"silence {silence.id} until {silence.ends_at:%Y-%m-%d %H:%M} UTC: {silence.comment}"
