"""An interval that closes on its bounds over time: a band, the ratio within it, and the bounds as lines.

Pure. It draws what others judged. The axis is logarithmic, as a verdict bar's is; of an interval that was still wider
than the axis reaches, what lies within it is drawn.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from web.drawing.axes import Axis
from web.drawing.line_chart import HEIGHT, WIDTH, Tick, clock_ticks
from web.drawing.verdict_bar import RATIOS, ROOM
from web.frame.format import percent

LEAST_REACH, MOST_REACH = 1.25, 3.0
APART = 0.12
"""Of the height, between two ticks' words."""


@dataclass(frozen=True)
class Known:
    """What was known at `time_s`: the ratio with its interval; 0 and infinite: an end that is open."""

    time_s: float
    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Bound:
    """`share` of the height, from the top."""

    name: str
    share: float


@dataclass(frozen=True)
class ClosingBand:
    """All that the template writes. `rows`: {"head", "rows"}, its figures to read."""

    band: str
    line: str
    bounds: list[Bound]
    up: list[Tick]
    across: list[Tick]
    sentence: str
    rows: dict[str, Any]


def closing_band(known: Sequence[Known], not_worse_to: float, better_below: float = 1.0) -> ClosingBand:
    """Of what was known, in order of time. Below `better_below` is better, above `not_worse_to` worse."""
    start_s, end_s = (known[0].time_s, known[-1].time_s) if known else (0.0, 0.0)
    ends = [end for one in known for end in (one.ratio, one.low, one.high) if 0 < end < math.inf]
    furthest = max((max(end, 1 / end) for end in [*ends, not_worse_to, better_below]), default=1.0)
    reach = min(max(ROOM * furthest, LEAST_REACH), MOST_REACH)
    across, up = Axis(start_s, end_s, 0.0, WIDTH), Axis(-math.log(reach), math.log(reach), HEIGHT, -HEIGHT)

    def at(time_s: float, ratio: float) -> str:
        within = min(max(ratio, 1 / reach), reach)
        return f"{across.at(time_s):.1f} {up.at(math.log(within)):.1f}"

    edges = [at(one.time_s, one.high) for one in known] + [at(one.time_s, one.low) for one in reversed(known)]
    line = [at(one.time_s, one.ratio) for one in known]
    share = Axis(-math.log(reach), math.log(reach), 1.0, -1.0)
    return ClosingBand(
        band="M" + "L".join(edges) + "Z" if len(known) > 1 else "",
        line="M" + "L".join(line) + ("h.1" if len(line) == 1 else "") if line else "",
        bounds=[
            Bound(name, share.at(math.log(bound)))
            for name, bound in (("worse above", not_worse_to), ("better below", better_below))
        ],
        up=_ticks(share),
        across=clock_ticks(Axis(start_s, end_s), end_s - start_s) if end_s > start_s else [],
        sentence=_sentence(known),
        rows=_rows(known),
    )


def _ticks(share: Axis) -> list[Tick]:
    """The same first, then outwards, where there is room for their words."""
    found: list[tuple[float, float]] = []
    for ratio in sorted(RATIOS, key=lambda ratio: (abs(math.log(ratio)) > 0, -abs(math.log(ratio)))):
        place = share.at(math.log(ratio))
        if 0 <= place <= 1 and all(abs(place - other) >= APART for other, _ in found):
            found.append((place, ratio))
    return [Tick(place, f"{ratio:g}×") for place, ratio in sorted(found)]


def _sentence(known: Sequence[Known]) -> str:
    """Such as "The interval closed from 40 % wide to 8 % wide; the ratio is 1.02×." """
    if not known:
        return "Nothing is known yet."
    first, last = _width(known[0]), _width(known[-1])
    now = f"the ratio is {known[-1].ratio:.3g}×"
    if last is None:
        return f"The interval is still open; {now}."
    if first is None:
        return f"The interval, open at first, is {percent(last)} wide; {now}."
    verb = "closed" if last < first else "went"
    return f"The interval {verb} from {percent(first)} to {percent(last)} wide; {now}."


def _width(known: Known) -> float | None:
    return None if known.low <= 0 or math.isinf(known.high) else known.high - known.low


def _rows(known: Sequence[Known]) -> dict[str, Any]:
    def words(ratio: float) -> str:
        return f"{ratio:.4g}×" if 0 < ratio < math.inf else "no bound"

    rows = [
        [datetime.fromtimestamp(one.time_s, UTC).isoformat(), words(one.ratio), words(one.low), words(one.high)]
        for one in known
    ]
    return {"head": ["time", "ratio", "interval from", "interval to"], "rows": rows}
