"""What a reader of Explore has chosen beside the bar's filters, as its address says it. Pure.

Guarantee: `choices_of` refuses by name what an address says wrongly, and what it does not say is the usual.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from controlplane.contract.bodies.explanation import Against
from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import E2E, ITL, REQUEST_PARTS, TPOT, TTFT, UNACCOUNTED
from controlplane.contract.on_call.metric_text import metric_name
from web.frame.own_parameters import one_of
from web.frame.selection import Selection

METRICS = (*(metric.short for metric in (TTFT, ITL, TPOT, E2E, *REQUEST_PARTS)), UNACCOUNTED.short)
"""What the heat map can be of."""
NAMES = {
    TTFT.short: "Time to first token",
    ITL.short: "Time between tokens",
    TPOT.short: "Time per output token",
    E2E.short: "End to end",
    UNACCOUNTED.short: "What no part accounts for",
} | {metric.short: metric.short.capitalize() for metric in REQUEST_PARTS}
TAILS = {"p90": 0.9, "p95": 0.95, "p99": 0.99}
"""Quantiles above which the tail's decomposition looks, as the address says them."""
USUAL_TAIL = "p95"
SHARED = "shared"
OPEN = "all"


@dataclass(frozen=True)
class Box:
    """A part of the heat map: a span, and seconds of its metric."""

    start: datetime
    end: datetime
    low: float
    high: float


@dataclass(frozen=True)
class Choices:
    """`tail`: of `TAILS`. `box`: what is to be explained, and `against` what. `one_scale`: charts of seconds share
    their axis. `every`: all charts are shown, not only the first ones."""

    metric: str = TTFT.short
    tail: str = USUAL_TAIL
    box: Box | None = None
    against: Against = Against.SPAN
    one_scale: bool = False
    every: bool = False

    @property
    def name(self) -> str:
        return NAMES[self.metric]

    @property
    def title(self) -> str:
        """ "Time to first token (TTFT)", "Queue"."""
        short = metric_name(self.metric)
        return self.name if short == self.metric else f"{self.name} ({short})"

    @property
    def noun(self) -> str:
        """What is counted: each gap between tokens is a value of its own, of all else a request has one."""
        return "gaps between tokens" if self.metric == ITL.short else "requests"

    @property
    def of_requests(self) -> str:
        """The metric that requests are told apart by: no log keeps each gap between tokens, but their mean."""
        return TPOT.short if self.metric == ITL.short else self.metric


def choices_of(selection: Selection) -> Choices:
    """Raises `BadRequest` that names the parameter."""
    return Choices(
        metric=one_of(selection, "metric", METRICS, TTFT.short),
        tail=one_of(selection, "tail", TAILS, USUAL_TAIL),
        box=_box(selection.own.get("box", "")),
        against=Against(one_of(selection, "against", Against, Against.SPAN)),
        one_scale=one_of(selection, "scale", ("own", SHARED), "own") == SHARED,
        every=one_of(selection, "charts", ("few", OPEN), "few") == OPEN,
    )


def _box(text: str) -> Box | None:
    if not text:
        return None
    try:
        start, end, low, high = text.split(",")
        found = Box(datetime.fromisoformat(start), datetime.fromisoformat(end), float(low), float(high))
    except ValueError:
        found = None
    if found is None or found.start.tzinfo is None or found.end.tzinfo is None:
        wanted = "box=2026-01-31T08:00:00Z,2026-01-31T08:05:00Z,0.5,2: start, end and two latencies in seconds"
        raise BadRequest(f"box: wants {wanted}", field="box")
    if not (found.start < found.end and 0 <= found.low < found.high < float("inf")):
        raise BadRequest("box: wants an end after its start and a higher latency after a lower one", field="box")
    return Box(found.start.astimezone(UTC), found.end.astimezone(UTC), found.low, found.high)
