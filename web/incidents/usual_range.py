"""What was usual of a quantile before an incident, and what it has been since: the chart's band and its sentence. Pure.

Guarantee: the range is of steps as wide as the chart's own: a quantile of fewer requests scatters more.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from controlplane.contract.bodies.alerts import Alert
from web.drawing.curves import Points
from web.drawing.line_chart import Band
from web.frame.format import seconds

WITHIN = (0.1, 0.9)
"""The range holds eight in ten of the steps: an incident before this one does not make its values usual."""
FEWEST, MOST = 10, 720
"""Steps that a range is told of, and that are asked for at most."""
USUAL_Q = 0.99


@dataclass(frozen=True)
class Usual:
    """Of the quantile `q`, seconds, over `span_s` before the onset."""

    q: float
    low_s: float
    high_s: float
    span_s: float

    @property
    def band(self) -> Band:
        return Band(f"usual p{100 * self.q:g}", self.low_s, self.high_s)


def watched_q(lead: Alert | None) -> float:
    """The quantile that its alert is of."""
    told = None if lead is None else lead.evidence.get("q") or lead.labels.get("q")
    try:
        found = float(told) if told is not None else USUAL_Q
    except (TypeError, ValueError):
        return USUAL_Q
    return found if 0 < found < 1 else USUAL_Q


def asked_span(lead: Alert | None, before: tuple[datetime, datetime], step_s: float) -> tuple[datetime, datetime]:
    """From when to when what is usual is looked for: the baseline of the alert, else `before`; not too many steps."""
    begin, onset = before
    told = {} if lead is None else lead.evidence.get("baseline") or {}
    with suppress(KeyError, TypeError, ValueError):
        begin = min(begin, datetime.fromisoformat(told["start"]))
    return max(begin, onset - timedelta(seconds=MOST * step_s)), onset


def usual_of(q: float, points: Points) -> Usual | None:
    """None where too few steps had requests."""
    if len(points) < FEWEST:
        return None
    ordered = sorted(value for _, value in points)
    low, high = (ordered[math.floor(share * (len(ordered) - 1) + 0.5)] for share in WITHIN)
    return Usual(q, low, high, points[-1][0] - points[0][0])


def told(usual: Usual, since: Sequence[float]) -> str:
    """Such as "p95 is usually 394 ms to 452 ms; since the onset it has been 1.51 s, 3.3 times the upper end." """
    name = f"p{100 * usual.q:g}"
    said = f"{name} is usually {seconds(usual.low_s)} to {seconds(usual.high_s)}"
    if not since:
        return f"{said}; since the onset nothing was measured."
    now_s = median(since)
    if now_s > usual.high_s > 0:
        where = f", {now_s / usual.high_s:.1f} times the upper end"
    else:
        where = ", within that" if now_s >= usual.low_s else ", below that"
    return f"{said}; since the onset it has been {seconds(now_s)}{where}."
