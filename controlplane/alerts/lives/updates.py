"""Whether an open alert has changed so much that people must hear of it again. Pure.

Receivers know what they were told (`Told`); what was seen since gathers in `Seen`. Of the same fault at the same size
nothing more is said; growth, a wider reach and another likeliest cause are, each once.

Guarantees: what was seen stays seen until it is told, also when it was there for one window only; nothing is told of
an alert more often than every `UPDATE_EVERY_S`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from controlplane.alerts.words import percentile, reach_of_node
from controlplane.contract.bodies.alerts import UpdateKind
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.duration_text import duration_text
from controlplane.contract.histogram import axis_position
from controlplane.contract.on_call.metric_text import metric_title
from controlplane.evidence.binomial import tail_bound
from controlplane.evidence.sketch import Sketch

UPDATE_EVERY_S = 60.0
LEAST_COUNT = 20
GREW = 1.5
"""The judged quantile has grown when it is so many times what was told ..."""
GREW_EDGE = 1.25
GREW_CHANCE = 1e-6
"""... and so unlikely many requests lie above `GREW_EDGE` times what was told, would it still hold. Requests of one
moment are not independent: hence so small a chance."""
REACHED_CHANCE, PERHAPS_CHANCE = 1e-4, 0.05
"""A node counts as reached where chance would hardly do it. What is perhaps slow when the alert goes out is taken for
told: it must not be news a minute later because more requests have come in."""
CAUSE_LEAD = 0.1
"""Another cause has to be so much likelier (in the diagnosis's score) than the one that was told."""


@dataclass(frozen=True)
class Told:
    """What the receivers of an alert know. reach: words for what is slow; value_s: the judged quantile, seconds."""

    at: datetime
    value_s: float | None
    reach: frozenset[str] = frozenset()
    cause: str = ""

    def dump(self) -> dict[str, Any]:
        return {
            "at": self.at.isoformat(),
            "value_s": self.value_s,
            "reach": sorted(self.reach),
            "cause": self.cause,
        }

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> "Told":
        at = datetime.fromisoformat(stored["at"])
        return cls(at, stored["value_s"], frozenset(stored["reach"]), stored["cause"])


@dataclass(frozen=True)
class Seen:
    """What has come to light since. value_s: the worst clear growth, None where there was none."""

    value_s: float | None = None
    reach: frozenset[str] = frozenset()
    cause: str = ""

    def and_then(self, later: "Seen") -> "Seen":
        values = [value for value in (self.value_s, later.value_s) if value is not None]
        return Seen(max(values, default=None), self.reach | later.reach, later.cause or self.cause)

    def dump(self) -> dict[str, Any]:
        return {"value_s": self.value_s, "reach": sorted(self.reach), "cause": self.cause}

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> "Seen":
        return cls(stored["value_s"], frozenset(stored["reach"]), stored["cause"])


def grown_to(told_s: float | None, recent: Sketch, q: float) -> float | None:
    """The judged quantile now where it has clearly grown beyond what was told, else None."""
    count = recent.count
    if told_s is None or told_s <= 0.0 or count < LEAST_COUNT:
        return None
    now_s = recent.quantile(q)
    above = recent.above(axis_position(GREW_EDGE * told_s))
    return now_s if now_s >= GREW * told_s and tail_bound(above, count, 1.0 - q) <= GREW_CHANCE else None


def cause_name(cause: Mapping[str, Any]) -> str:
    """One cause from another: its kind, and which revision or node it names."""
    return ":".join(
        str(part) for part in (cause["cause"], cause.get("revision"), cause.get("node")) if part is not None
    )


def another_cause(told: str, causes: Sequence[Mapping[str, Any]]) -> str:
    """The likeliest cause where it is clearly another than was told, else ""."""
    if not causes or cause_name(causes[0]) == told or causes[0]["cause"] == CauseKind.UNKNOWN:
        return ""
    score = {cause_name(cause): float(cause.get("score", 0.0)) for cause in causes}
    lead = score[cause_name(causes[0])] - score.get(told, 0.0)
    return cause_name(causes[0]) if lead >= CAUSE_LEAD else ""


def kinds(told: Told, seen: Seen) -> list[UpdateKind]:
    """What is news in what was seen."""
    found = []
    if seen.value_s is not None:
        found.append(UpdateKind.GREW)
    if seen.reach - told.reach:
        found.append(UpdateKind.SPREAD)
    if seen.cause and seen.cause != told.cause:
        found.append(UpdateKind.CAUSE)
    return found


def words(told: Told, seen: Seen, metric: str, q: float, message: str) -> str:
    """The news as one sentence; message: the likeliest cause's own words."""
    parts = []
    if seen.value_s is not None and told.value_s is not None:
        grown = f"{duration_text(told.value_s)} to {duration_text(seen.value_s)}"
        parts.append(f"{metric_title(metric)} {percentile(q)} grew from {grown}")
    new = sorted(seen.reach - told.reach)
    if new:
        parts.append("it reached " + ", ".join(new))
    if seen.cause and seen.cause != told.cause:
        parts.append(f"the likeliest cause is now: {message}")
    return "; ".join(parts)


def told_again(told: Told, seen: Seen, at: datetime) -> Told:
    """What receivers know after the update."""
    return replace(
        told, at=at, value_s=seen.value_s or told.value_s, reach=told.reach | seen.reach, cause=seen.cause or told.cause
    )


# -- words for what is slow --------------------------------------------------------------------------------------------


def reach_of_nodes(by_node: Mapping[str, Sketch], limit_s: float | None, q: float, chance: float) -> frozenset[str]:
    """Nodes with more requests above `GREW_EDGE` times the limit than the quantile allows, but for this chance."""
    if limit_s is None or limit_s <= 0.0:
        return frozenset()
    edge = axis_position(GREW_EDGE * limit_s)
    return frozenset(
        reach_of_node(node)
        for node, sketch in by_node.items()
        if node and sketch.count and tail_bound(sketch.above(edge), sketch.count, 1.0 - q) <= chance
    )
