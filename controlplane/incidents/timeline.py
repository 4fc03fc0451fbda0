"""What happened in an incident, in order: from its alerts' rows, their deliveries and the ledger. Pure.

Guarantee: an entry is in it once, whether it stands in a row or in the ledger.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.alerts.diagnosis.confirmed_causes import CAUSE_CONFIRMED
from controlplane.contract.bodies.alerts import OURS, Alert
from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.on_call.incidents import IncidentNote, TimelineEntry, TimelineKind

OF_LEDGER = {
    "incident.opened": TimelineKind.OPENED,
    "incident.joined": TimelineKind.JOINED,
    "incident.acknowledged": TimelineKind.ACKNOWLEDGED,
    CAUSE_CONFIRMED: TimelineKind.CAUSE,
    "incident.merged": TimelineKind.MERGED,
    "incident.split": TimelineKind.SPLIT,
    "incident.reopened": TimelineKind.REOPENED,
    "incident.resolved": TimelineKind.RESOLVED,
    "rollout": TimelineKind.CHANGE,
    "study.started": TimelineKind.CHANGE,
    "study.step": TimelineKind.CHANGE,
    "study.finished": TimelineKind.CHANGE,
}
"""Kinds of the ledger's entries, or what they begin with."""
TOGETHER = timedelta(seconds=10)
"""Who was told the same within it stands in one entry."""
ORDER = {kind: place for place, kind in enumerate(TimelineKind)}


@dataclass(frozen=True)
class Telling:
    """One message about an alert to `receiver`, which was told at `time`, or could not be told what it was meant to be
    told of then."""

    time: datetime
    alert_id: int
    receiver: str
    status: str
    error: str | None = None


def timeline(
    alerts: Sequence[Alert],
    tellings: Iterable[Telling],
    notes: Iterable[IncidentNote],
    ledger: Iterable[LedgerEntry],
) -> list[TimelineEntry]:
    """The oldest first; what happened at one moment in the order of cause and effect."""
    told = list(tellings)
    heard = {one.alert_id for one in told if one.error is None}
    found = [entry for alert in alerts for entry in _of_alert(alert, held=alert.silenced and alert.id not in heard)]
    found += [_of_tellings(together) for together in _told_together(told)]
    found += [
        TimelineEntry(time=note.time, kind=TimelineKind.NOTE, text=note.text, actor=note.author) for note in notes
    ]
    found += [entry for told in ledger for entry in _of_ledger(told)]
    return sorted(found, key=lambda entry: (entry.time, ORDER[entry.kind]))


def _of_alert(alert: Alert, *, held: bool) -> Iterator[TimelineEntry]:
    """held: it fired, and nobody was told."""
    subject = f"alert/{alert.id}"
    name = alert.rule if alert.source == OURS else f"{alert.rule} ({alert.source})"
    began = f"{name} began" + (f" on node {alert.labels['node']}" if "node" in alert.labels else "")
    yield TimelineEntry(time=alert.started_at, kind=TimelineKind.ONSET, text=began, subject=subject)
    if alert.fired_at is not None:
        silent = f" (nobody was told: {alert.held_by or 'a silence or an inhibit rule'})" if held else ""
        yield TimelineEntry(time=alert.fired_at, kind=TimelineKind.FIRED, text=alert.summary + silent, subject=subject)
    for update in alert.updates:
        yield TimelineEntry(time=update.time, kind=TimelineKind.UPDATED, text=update.summary, subject=subject)
    for step in alert.remedies:
        text = f"{step.title}: {step.why}"
        yield TimelineEntry(time=step.time, kind=TimelineKind.REMEDY, text=text, subject=subject)
    if alert.resolved_at is not None:
        text = f"{name} was over"
        yield TimelineEntry(time=alert.resolved_at, kind=TimelineKind.OVER, text=text, subject=subject)


def _told_together(tellings: Iterable[Telling]) -> list[list[Telling]]:
    """Who was told the same of one alert within `TOGETHER`, the first in front; failures stay by themselves."""
    found: list[list[Telling]] = []
    last: dict[tuple[int, str], list[Telling]] = {}
    for one in sorted(tellings, key=lambda one: one.time):
        of = (one.alert_id, one.status)
        if one.error is None and _belongs(one, last.get(of)):
            last[of].append(one)
            continue
        found.append([one])
        if one.error is None:
            last[of] = found[-1]
    return found


def _belongs(one: Telling, others: Sequence[Telling] | None) -> bool:
    """Told once more it is another entry."""
    if others is None or one.time - others[0].time > TOGETHER:
        return False
    return all(one.receiver != other.receiver for other in others)


def _of_tellings(together: Sequence[Telling]) -> TimelineEntry:
    first = together[0]
    who = ", ".join(one.receiver for one in together)
    text = f"{who} {'was' if len(together) == 1 else 'were'} told that it is {first.status}"
    if first.error is not None:
        text = f"{who} could not be told that it is {first.status}: {first.error}"
    kind = TimelineKind.SENT if first.error is None else TimelineKind.NOT_SENT
    return TimelineEntry(time=first.time, kind=kind, text=text, subject=f"alert/{first.alert_id}")


def _of_ledger(entry: LedgerEntry) -> Iterator[TimelineEntry]:
    kind = next((kind for begins, kind in OF_LEDGER.items() if entry.kind.startswith(begins)), None)
    if kind is not None:
        yield TimelineEntry(time=entry.time, kind=kind, text=entry.message, actor=entry.actor, subject=entry.subject)
