"""The cause "config_change" (pure): a configuration revision whose share of the requests rose at the onset, and the
rollout that brought it.

A revision that is being withdrawn is no cause; nor is one that came clearly after the onset, or that had left before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from controlplane.alerts.diagnosis.arrival import NEGLIGIBLE, Arrival, Served, arrivals
from controlplane.alerts.diagnosis.rollout_record import RolloutRecord
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.reports.declared_knobs import between
from controlplane.contract.share_text import share_text

NEAR_S = 300.0
"""A change so near to the onset is the likeliest cause there can be."""
ONSET_EARLY_S = 60.0
"""An onset may be estimated too early by so much: evidence is traced back to where it began to gather, and noise before
the change belongs to that. What reached the pool later than this after the onset did not cause it."""
SEEN_LATE_S = 60.0
"""A revision's share rises only with the requests that finish under it, which may be so long after its rollout."""
NEAR_SCORE, FAR_SCORE = 0.95, 0.5


@dataclass(frozen=True)
class RevisionSeen:
    """A configuration revision that served requests: its shares of them before and during, and window by window."""

    number: int
    before_share: float
    during_share: float
    windows: Sequence[Served] = ()


def config_changes(
    revisions: Sequence[RevisionSeen],
    rollouts: Sequence[RolloutRecord],
    onset: datetime,
    knobs: Mapping[int, Mapping[str, Any]] = {},
) -> list[dict[str, Any]]:
    """One cause for each revision that came. `knobs`: of revisions by number, where they are known."""
    found = []
    for new in revisions:
        if new.during_share - new.before_share < NEGLIGIBLE:
            continue
        arrival = _at_the_onset(new, onset)
        if arrival is None:
            continue
        reached = _in_time(arrival, onset)
        rollout = _brought_by(new.number, reached, rollouts)
        others = [seen for seen in revisions if seen.number != new.number]
        old = max(others, key=lambda seen: seen.before_share, default=None)
        before = rollout.previous_revision if rollout is not None else None if old is None else old.number
        was, now = ({} if number is None else knobs.get(number, {}) for number in (before, new.number))
        changed = {name: [*pair] for name, pair in between(was, now).items()} if was and now else {}
        found.append(_cause(new, arrival, rollout, before, changed, onset))
    return found


def _at_the_onset(new: RevisionSeen, onset: datetime) -> Arrival | None:
    """The latest stay that had begun by the onset, as far as that is known, and went on through the slowdown."""
    end = new.windows[-1].start + timedelta(seconds=WINDOW_S) if new.windows else onset
    middle = onset + (end - onset) / 2
    return next(
        (
            arrival
            for arrival in reversed(arrivals(new.windows))
            if _in_time(arrival, onset) and (arrival.ended is None or arrival.ended > max(middle, onset))
        ),
        None,
    )


def _in_time(arrival: Arrival, onset: datetime) -> list[datetime]:
    latest = onset + timedelta(seconds=ONSET_EARLY_S)
    return [moment for moment in arrival.milestones if moment <= latest]


def _brought_by(number: int, reached: Sequence[datetime], rollouts: Sequence[RolloutRecord]) -> RolloutRecord | None:
    """The newest rollout of this revision during which, or shortly after, its share rose."""

    def raised(record: RolloutRecord) -> bool:
        # The window in which the rollout began may have begun before it.
        start = record.started_at - timedelta(seconds=WINDOW_S)
        if record.ended_at is None:
            return any(start <= moment for moment in reached)
        return any(start <= moment <= record.ended_at + timedelta(seconds=SEEN_LATE_S) for moment in reached)

    return next((record for record in reversed(rollouts) if record.revision == number and raised(record)), None)


def _cause(
    new: RevisionSeen,
    arrival: Arrival,
    rollout: RolloutRecord | None,
    before: int | None,
    changed: Mapping[str, Sequence[Any]],
    onset: datetime,
) -> dict[str, Any]:
    distance_s = min(abs((moment - onset).total_seconds()) for moment in _in_time(arrival, onset))
    half_at, whole_at = _not_before(arrival.half_at, rollout), _not_before(arrival.whole_at, rollout)
    if whole_at is None and arrival.ended is None and rollout is not None:
        whole_at = rollout.promoted_at  # Every node has confirmed it, whatever telemetry has seen of it yet.
    cause: dict[str, Any] = {
        "cause": CauseKind.CONFIG_CHANGE.value,
        "score": NEAR_SCORE if distance_s <= NEAR_S else FAR_SCORE,
        "message": _message(new, arrival, rollout, changed, half_at, whole_at),
        "revision": new.number,
        "previous_revision": before,
        "changed": dict(changed),
        "first_seen": _text(_not_before(arrival.began, rollout)),
        "reached_half_at": _text(half_at),
        "reached_all_at": _text(whole_at),
        "withdrawn_at": _text(arrival.ended),
        "share_of_requests": round(new.during_share, 3),
    }
    if rollout is not None:
        cause |= {
            "rollout_id": rollout.number,
            "rollout_path": rollout.path,
            "emergency": rollout.emergency,
            "takes_back": rollout.takes_back,
            "verdict": rollout.verdict,
        }
    return cause


def _message(
    new: RevisionSeen,
    arrival: Arrival,
    rollout: RolloutRecord | None,
    changed: Mapping[str, Sequence[Any]],
    half_at: datetime | None,
    whole_at: datetime | None,
) -> str:
    words = ", ".join(f"{name} {_word(pair[0])} -> {_word(pair[1])}" for name, pair in changed.items())
    text = f"revision {new.number}" + (f" ({words})" if words else "")
    text += "" if rollout is None else f", brought by {rollout.words},"
    if whole_at is not None and (half_at is None or half_at == whole_at):
        text += f" reached all of the pool at {whole_at:%H:%M:%S}"
    elif half_at is not None:
        text += f" reached half of the pool at {half_at:%H:%M:%S}"
        text += "" if whole_at is None else f" and all of it at {whole_at:%H:%M:%S}"
    elif arrival.began is not None:
        text += f" serves {share_text(new.during_share)} of the requests, since {arrival.began:%H:%M:%S}"
    return text + ("" if arrival.ended is None else f", and was withdrawn by {arrival.ended:%H:%M:%S}")


def _not_before(moment: datetime | None, rollout: RolloutRecord | None) -> datetime | None:
    """A window that began before the rollout did shows what came of it later in that window."""
    return moment if moment is None or rollout is None else max(moment, rollout.started_at)


def _word(value: Any) -> str:
    return "unset" if value is None else str(value)


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")
