"""The spans of time that pages offer, and the part of one that a reader has zoomed into."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.contract.errors import BadRequest

STEP_S = {"5m": 5, "15m": 10, "1h": 30, "6h": 180, "24h": 600}
"""Each span with the step, in seconds, that gives about a hundred points."""

STEP_OF = {span: f"{step_s}s" for span, step_s in STEP_S.items()}
"""The same as the API takes it."""

LENGTH_S = {"5m": 300, "15m": 900, "1h": 3600, "6h": 21_600, "24h": 86_400}

USUAL = "15m"


@dataclass(frozen=True)
class Zoom:
    """A part of a span. `span`: the shortest one that holds it, whose step it is drawn with."""

    start: datetime
    end: datetime
    span: str


def span_of(params: Mapping[str, str]) -> str:
    """The asked span. Raises `BadRequest` for one that is not offered."""
    span = params.get("span") or USUAL
    if span not in STEP_OF:
        raise BadRequest(f"span: {span[:20]!r} is none of {', '.join(STEP_OF)}", field="span")
    return span


def zoom_of(params: Mapping[str, str]) -> Zoom | None:
    """What ?from= and ?to= ask for; None without them. Raises `BadRequest` for what is no part of a day."""
    if not params.get("from") and not params.get("to"):
        return None
    start, end = _moment(params, "from"), _moment(params, "to")
    length = end - start
    if not timedelta() < length <= timedelta(days=1):
        raise BadRequest("to: wants a moment after `from`, a day later at most", field="to")
    return Zoom(start, end, next(span for span, whole_s in LENGTH_S.items() if length.total_seconds() <= whole_s))


def _moment(params: Mapping[str, str], name: str) -> datetime:
    try:
        found = datetime.fromisoformat(params.get(name, ""))
    except ValueError:
        raise BadRequest(f"{name}: wants a moment in RFC 3339", field=name) from None
    if found.tzinfo is None:
        raise BadRequest(f"{name}: wants a time zone", field=name)
    return found
