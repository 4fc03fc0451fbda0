"""The time that a page is about, in Grafana's words: `from=now-15m&to=now`, or two moments in RFC 3339.

Pure. Guarantee: what is not understood is refused with what would be; a range has an end after its start.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from controlplane.contract.errors import BadRequest

NOW = "now"
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
OFFERED = {
    "now-5m": "last 5 minutes",
    "now-15m": "last 15 minutes",
    "now-1h": "last hour",
    "now-6h": "last 6 hours",
    "now-24h": "last 24 hours",
    "now-2d": "last 2 days",
    "now-7d": "last 7 days",
    "now-30d": "last 30 days",
}
"""What the bar offers: the start, and how it is called."""
USUAL = "now-15m"
LONGEST = timedelta(days=92)
FIRST, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
"""Between them lies every moment of an address, so that what is computed from it is a moment, too."""
LONGEST_BACK = timedelta(days=3653)
STEPS_S = (5, 10, 30, 60, 180, 300, 600, 1800, 3600, 10_800, 21_600, 86_400)
"""Steps that telemetry is asked for: each holds a whole number of reports."""
MOST_POINTS = 120

_RELATIVE = re.compile(r"now(?:-(?P<count>\d{1,6})(?P<unit>[smhdw]))?")


@dataclass(frozen=True)
class TimeRange:
    """`start_word`, `end_word`: as in the address. Relative ones move with the clock."""

    start_word: str = USUAL
    end_word: str = NOW

    @property
    def is_live(self) -> bool:
        """Whether it ends now, so that it goes on."""
        return self.end_word == NOW

    @property
    def words(self) -> str:
        """For a reader."""
        if self.is_live and self.start_word in OFFERED:
            return OFFERED[self.start_word]
        return f"{self.start_word} to {self.end_word}"

    def at(self, now: datetime) -> tuple[datetime, datetime]:
        """Start and end, UTC."""
        return _moment(self.start_word, now, "from"), _moment(self.end_word, now, "to")

    def length(self, now: datetime) -> timedelta:
        start, end = self.at(now)
        return end - start

    def step_s(self, now: datetime) -> int:
        """Seconds of a step that cuts it into at most `MOST_POINTS`."""
        whole = self.length(now).total_seconds()
        return next((step for step in STEPS_S if whole / step <= MOST_POINTS), STEPS_S[-1])

    def earlier(self, by: timedelta, now: datetime) -> tuple[datetime, datetime]:
        """The same length, that much before."""
        start, end = self.at(now)
        return start - by, end - by


def time_range(start: str, end: str, now: datetime) -> TimeRange:
    """Of the address' `from` and `to`; empty ones are the usual. Raises `BadRequest` for what is none."""
    found = TimeRange(start or USUAL, end or NOW)
    from_, to = found.at(now)
    if to <= from_:
        raise BadRequest("to: wants a moment after `from`", field="to")
    if to - from_ > LONGEST:
        raise BadRequest(f"from: a range has at most {LONGEST.days} days", field="from")
    return found


def duration(text: str, field: str) -> timedelta:
    """Of "90s", "15m", "1h", "7d", "1w", at most ten years. Raises `BadRequest` that names `field`."""
    found = re.fullmatch(r"(\d{1,6})([smhdw])", text)
    if found is None:
        raise BadRequest(f"{field}: wants a number and s, m, h, d or w, such as 1h or 7d", field=field)
    length = timedelta(seconds=int(found[1]) * UNITS_S[found[2]])
    if not timedelta() < length <= LONGEST_BACK:
        raise BadRequest(f"{field}: wants more than none and at most ten years", field=field)
    return length


def _moment(word: str, now: datetime, field: str) -> datetime:
    if relative := _RELATIVE.fullmatch(word):
        back_s = int(relative["count"] or 0) * UNITS_S[relative["unit"] or "s"]
        if back_s > (now - FIRST).total_seconds():
            raise BadRequest(f"{field}: wants a moment after {FIRST.year}", field=field)
        return now - timedelta(seconds=back_s)
    try:
        found = datetime.fromisoformat(word)
    except ValueError:
        raise BadRequest(
            f"{field}: wants now, now-15m (s, m, h, d, w) or a moment such as 2026-01-31T08:00:00Z", field=field
        ) from None
    if found.tzinfo is None:
        raise BadRequest(f"{field}: wants a time zone: {word[:32]}Z is UTC", field=field)
    if not FIRST <= found <= LAST:
        raise BadRequest(f"{field}: wants a moment between {FIRST.year} and {LAST.year}", field=field)
    return found.astimezone(UTC)
