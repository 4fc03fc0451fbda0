"""Spans of time as the API takes them: `window=5m`, `step=10s`, RFC 3339 `start` and `end`.

Guarantee: exact integer arithmetic between datetimes, nanoseconds and windows; every error names its field.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import WINDOW_NS, WINDOW_S

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
DEFAULT_WINDOW_S = 300.0
LONGEST_S = 400 * 86400.0
MAX_STEPS = 11_000
YEARS = range(1970, 2200)
"""Their nanoseconds since the epoch fit 64 bits."""
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+", re.ASCII)
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhdw])", re.ASCII)
DURATION = r"^([0-9]+(\.[0-9]+)?(ms|[smhdw]))+$|^[0-9]{1,9}(\.[0-9]{1,9})?$"
"""What `parse_duration` takes, as JSON Schema says it."""
_MICROSECOND = timedelta(microseconds=1)
_WINDOW_US = int(WINDOW_S * 1_000_000)
_LOST_PLUS = re.compile(r" (\d\d:?\d\d)$")


@dataclass(frozen=True)
class Span:
    """[start, end) in UTC."""

    start: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()


def parse_duration(text: str, field: str) -> float:
    """Seconds of "5m", "1h30m", "500ms", or a plain number of seconds."""
    if re.fullmatch(r"\d{1,9}(\.\d{1,9})?", text, re.ASCII):
        seconds = float(text)
    elif len(text) <= 40 and _DURATION.fullmatch(text):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    else:
        raise BadRequest(f"{field}: {text[:40]!r} is not a duration like 30s, 5m, 1h or 2d", field=field)
    if not 0 < seconds <= LONGEST_S:
        raise BadRequest(f"{field}: {text[:40]} must be more than zero and at most 400d", field=field)
    return seconds


def parse_time(text: str, field: str) -> datetime:
    """An RFC 3339 time; one without an offset is refused: it would mean two things."""
    # An unescaped "+" in a query string arrives as a space.
    try:
        time = datetime.fromisoformat(_LOST_PLUS.sub(r"+\1", text))
        if time.tzinfo is None:
            raise BadRequest(f"{field}: {text[:40]!r} lacks an offset; end it with Z or +00:00", field=field)
        if time.year not in YEARS:
            raise BadRequest(f"{field}: the year {time.year} is not within {YEARS[0]} and {YEARS[-1]}", field=field)
        return time.astimezone(UTC)
    except (ValueError, OverflowError):
        raise BadRequest(
            f"{field}: {text[:40]!r} is not a time like 2026-01-31T12:00:00Z (RFC 3339)", field=field
        ) from None


def resolve(now: datetime, window: str | None, start: str | None, end: str | None) -> Span:
    """The span that `window`, `start` and `end` mean together; the last five minutes when none is given."""
    if window is not None and start is not None and end is not None:
        raise BadRequest("window: give at most two of window, start and end", field="window")
    seconds = None if window is None else parse_duration(window, "window")
    first = None if start is None else parse_time(start, "start")
    last = None if end is None else parse_time(end, "end")
    if first is not None and last is None:
        last = now if seconds is None else first + timedelta(seconds=seconds)
    last = last or now
    first = first or last - timedelta(seconds=seconds or DEFAULT_WINDOW_S)
    if first >= last:
        field = "start" if end is None else "end"
        raise BadRequest(f"{field}: start {first.isoformat()} is not before end {last.isoformat()}", field=field)
    if (last - first).total_seconds() > LONGEST_S:
        raise BadRequest("start: the span from start to end is over 400d", field="start")
    return Span(first, last)


def parse_step(text: str | None, span: Span) -> float | None:
    """Seconds of `step`: a multiple of the store's window, and not too many of them in the span."""
    if text is None:
        return None
    step_s = parse_duration(text, "step")
    check_step(step_s)
    if span.seconds / step_s > MAX_STEPS:
        raise BadRequest(f"step: {text} makes over {MAX_STEPS} steps; take a longer one", field="step")
    return step_s


def check_step(step_s: float) -> None:
    if step_s < WINDOW_S or step_s % WINDOW_S:
        raise BadRequest(f"step: must be a multiple of {WINDOW_S:g}s", field="step")


def at_ns(ns: int) -> datetime:
    """Nanoseconds since the epoch as a datetime (to the microsecond)."""
    return EPOCH + timedelta(microseconds=ns // 1000)


def to_ns(time: datetime) -> int:
    return (time - EPOCH) // _MICROSECOND * 1000


def start_of(window: int) -> datetime:
    return EPOCH + timedelta(microseconds=window * _WINDOW_US)


def windows_in(start: datetime, end: datetime) -> tuple[int, int]:
    """First and last-plus-one of the windows whose own start lies in [start, end)."""
    first, last = ((time - EPOCH) // _MICROSECOND for time in (start, end))
    return -(-first // _WINDOW_US), -(-last // _WINDOW_US)


def window_at(time: datetime) -> int:
    """The window that contains an instant."""
    return (time - EPOCH) // timedelta(microseconds=_WINDOW_US)


def window_of(end_ns: int) -> int:
    """The window of a time span that ends at `end_ns` (spans exclude their start and include their end, as in OTLP)."""
    return (end_ns - 1) // WINDOW_NS
