"""A ribbon: which share of the engines' steps each limit bound, over time, and what lifts it.

Pure, but that its clock is the page's. Guarantee: at each moment the shares add up to one, or there is a gap: no step
was told.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from controlplane.contract.step_limits import LIFTED_BY, MEANING, StepLimit
from web.drawing.axes import Axis, whole_steps
from web.drawing.curves import Points, bars, layers
from web.drawing.line_chart import WIDTH, Tick, clock_ticks
from web.frame.format import percent

HEIGHT = 28.0


@dataclass(frozen=True)
class Band:
    """The steps that one limit bound. `share`: of all steps of the span. `lifted_by`: None where nothing need be."""

    limit: StepLimit
    path: str
    share: float
    meaning: str
    lifted_by: str | None

    @property
    def name(self) -> str:
        return self.limit.value.replace("_", " ")

    @property
    def words(self) -> str:
        return f"{self.name}: {percent(self.share, 0 if self.share >= 0.01 else 1)} of steps"


@dataclass(frozen=True)
class Ribbon:
    """All that the template writes: bands from the top down. `rows`: {"head", "rows"}, the shares by time, to copy and
    to read."""

    bands: list[Band]
    across: list[Tick]
    sentence: str
    start_s: float
    end_s: float
    rows: dict[str, Any]


def ribbon(steps: Mapping[StepLimit, Points], start_s: float, end_s: float, step_s: float) -> Ribbon:
    """Of `steps`: for each limit (seconds since 1970, engine steps that it bound in the `step_s` from then)."""
    counted = [(limit, dict(steps[limit])) for limit in MEANING if any(count > 0 for _, count in steps.get(limit, ()))]
    times = sorted({time for _, points in counted for time in points})
    totals = {time: sum(points.get(time, 0.0) for _, points in counted) for time in times}
    told = [time for time in times if totals[time] > 0]
    start_s, end_s = whole_steps(start_s, end_s, step_s, min(times, default=start_s))
    across, down = Axis(start_s, end_s, 0.0, WIDTH), Axis(0.0, 1.0, 0.0, HEIGHT)
    edges = layers([[points.get(time, 0.0) / totals[time] for time in told] for _, points in counted])
    whole = sum(totals.values())
    bands = [
        Band(
            limit,
            bars(told, layer, across, down, step_s),
            sum(points.values()) / whole,
            MEANING[limit],
            LIFTED_BY.get(limit),
        )
        for (limit, points), layer in zip(counted, edges, strict=True)
    ]
    rows = [
        [
            datetime.fromtimestamp(time, UTC).isoformat(),
            *(round(points.get(time, 0.0) / totals[time], 4) for _, points in counted),
        ]
        for time in told
    ]
    table = {"head": ["time", *(limit.value for limit, _ in counted)], "rows": rows}
    return Ribbon(bands, clock_ticks(across, end_s - start_s), _sentence(bands), start_s, end_s, table)


def _sentence(bands: list[Band]) -> str:
    """Such as "Nothing bound 60 % of the steps; most of the others were bound by max num seqs (30 %)." """
    if not bands:
        return "No engine has said what bound its steps in this span."
    idle = next((band.share for band in bands if band.limit is StepLimit.NO_WORK), 0.0)
    binding = [band for band in bands if band.limit is not StepLimit.NO_WORK]
    if not binding:
        return "Nothing bound the engines' steps: they kept up."
    most = max(binding, key=lambda band: band.share)
    said = f"{most.name} bound {percent(most.share, 0 if most.share >= 0.01 else 1)} of the steps"
    lifted = f" ({most.lifted_by} lifts it)" if most.lifted_by else ""
    return f"{said}{lifted}; nothing bound {percent(idle)}."
