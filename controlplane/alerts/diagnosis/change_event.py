"""The cause "change_event" (pure): what others say they did (a mark, `POST /api/v1/events`) shortly before it began.

A mark says when something was done, and nothing of what that did to the pool. So two things are asked of it.

- *Is it near by chance?* Marks that have to do with nothing are taken for a Poisson process: one more an hour than the
  hour before had beside this one. It brings one at least as near, from the mark to the latest moment at which it may
  have begun, with chance 1 - exp(-rate * span). Above `MOST_BY_CHANCE` the mark is no cause; else it is as plausible as
  its kind, times 1 - chance.
- *Is it explained already?* It explains at most what that which is measured on the pool leaves, and goes behind all
  that explains the shift, however plausible its kind was learned to be.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from controlplane.alerts.diagnosis.plausibility import PRIOR
from controlplane.alerts.diagnosis.shift_parts import EXPLAINS, event_before
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.duration_text import duration_text
from controlplane.contract.on_call.attribution import ChangedAt, EventBefore
from controlplane.contract.share_text import share_text

Cause = dict[str, Any]

USUAL_S = 3600.0
"""Marks come as often as in so long before."""
MOST_BY_CHANCE = 0.1


def change_events(marks: Sequence[Mapping[str, Any]], since: ChangedAt | None) -> list[Cause]:
    """The nearest mark that may have come before it. marks: {"time", "kind", "subject", "message", "link"} of the hour
    before at least, times in ISO format."""
    nearest = None if since is None else event_before(since, marks)
    if since is None or nearest is None:
        return []
    chance = by_chance(nearest, since, [datetime.fromisoformat(str(mark["time"])) for mark in marks])
    if chance > MOST_BY_CHANCE:
        return []
    link = next((mark.get("link") for mark in marks if mark["subject"] == nearest.subject), None)
    rare = f"by chance one comes so near in {share_text(chance)} of cases"
    return [
        {
            "cause": CauseKind.CHANGE_EVENT.value,
            "score": PRIOR[CauseKind.CHANGE_EVENT] * (1.0 - chance),
            "message": f"{nearest.message} came {lag_text(nearest)} ({rare})",
            "event": nearest.subject,
            "time": nearest.time.isoformat(timespec="seconds"),
            "lag_s": nearest.lag_s,
            "by_chance": round(chance, 4),
            "link": link,
        }
    ]


def by_chance(nearest: EventBefore, since: ChangedAt, times: Sequence[datetime]) -> float:
    """How often a mark would be at least as near by chance."""
    others = sum(since.high - timedelta(seconds=USUAL_S) < time <= since.high for time in times) - 1
    span_s = abs(nearest.lag_s) + (since.high - since.at).total_seconds()
    return -math.expm1(-(max(others, 0) + 1) / USUAL_S * span_s)


def lag_text(event: EventBefore) -> str:
    return f"{duration_text(event.lag_s)} before it began" if event.lag_s >= 1.0 else "as it began"


def behind_measured(told: Sequence[Cause]) -> list[Cause]:
    """The same causes, the likeliest first, marks by what the others leave. Asked twice, the answer is the same."""
    measured = [one for one in told if one["cause"] != CauseKind.CHANGE_EVENT]
    shares = [float(one["share_explained"]) for one in measured if "share_explained" in one]
    left = 1.0 - max(shares, default=0.0)
    # What is measured, and has no share, stands there for its evidence.
    explaining = [one for one in measured if float(one.get("share_explained", 1.0)) >= EXPLAINS]
    most = min((float(one["score"]) for one in explaining if one["cause"] != CauseKind.UNKNOWN), default=1.0)

    def weighed(one: Cause) -> Cause:
        if one["cause"] != CauseKind.CHANGE_EVENT:
            return one
        alone = float(one["score_alone"] if "score_alone" in one else one["score"])
        return {**one, "score_alone": alone, "score": round(min(alone * left, most), 4)}

    found = [weighed(one) for one in told]
    return sorted(found, key=lambda one: (-float(one["score"]), one["cause"] == CauseKind.CHANGE_EVENT))
