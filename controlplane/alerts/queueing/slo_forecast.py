"""When an objective breaks at the slope at which waiting grows now (linear extrapolation).

A request that comes now waits behind the whole backlog: its time is that of a usual request at the objective's quantile
and the wait. The measured quantile lags behind, for it is of requests that have ended.
"""

from dataclasses import dataclass

import numpy as np

from controlplane.alerts.queueing.return_level import Floats
from controlplane.alerts.words import percentile
from controlplane.contract.bodies.slo import Limit
from controlplane.contract.duration_text import duration_text
from controlplane.contract.metrics import E2E, TTFT
from controlplane.contract.on_call.metric_text import metric_name

SLOPE_S = 60.0
WAITS = frozenset({TTFT.short, E2E.short})
"""Metrics in which waiting is felt second by second."""


@dataclass(frozen=True)
class Forecast:
    """limit: the objective; in_s: seconds until requests that come then break it, 0: those that come now do, None: it
    does not break at this slope; broken: whether the measured quantile is past it already."""

    limit: Limit
    in_s: float | None
    broken: bool

    def is_near(self, horizon_s: float) -> bool:
        return self.broken or (self.in_s is not None and self.in_s <= horizon_s)

    @property
    def words(self) -> str:
        name = f"{metric_name(self.limit.metric)} {percentile(self.limit.q)}"
        limit = f"its limit of {duration_text(self.limit.limit_s)}"
        if self.broken:
            return f"{name} is past {limit}"
        if self.in_s is None:
            return f"{name} stays within {limit} at this slope"
        if self.in_s <= 0.0:
            return f"{name} of requests that come now is past {limit}"
        return f"{name} passes {limit} in {duration_text(self.in_s)} at this slope"


def slope(wait_s: Floats, step_s: float, span_s: float = SLOPE_S) -> float:
    """Seconds of waiting a second, by least squares over the newest span."""
    newest = wait_s[-max(2, round(span_s / step_s)) :]
    newest = newest[np.isfinite(newest)]
    if newest.size < 2:
        return 0.0
    at = step_s * np.arange(newest.size)
    return float(np.polyfit(at, newest, 1)[0])


def forecast(limit: Limit, usual_s: float, measured_s: float | None, wait_s: float, grows: float) -> Forecast:
    """usual_s: the objective's quantile before; measured_s: of the newest requests that ended, None: none has; wait_s:
    of a request that comes now; grows: seconds of waiting a second."""
    broken = measured_s is not None and measured_s > limit.limit_s
    left_s = limit.limit_s - usual_s - wait_s
    in_s = 0.0 if left_s <= 0.0 else left_s / grows if grows > 0.0 else None
    return Forecast(limit, in_s, broken)


def nearest(found: list[Forecast]) -> Forecast | None:
    """The one that breaks first, one that is broken before all."""
    return min(found, key=lambda one: (not one.broken, float("inf") if one.in_s is None else one.in_s), default=None)
