"""What a page is looked at for: its time range, filters, comparison and clock, all of it in its address.

Pure. Guarantee: `address` and `selection_of` undo each other; what an address says wrongly is refused by name, and
what it does not say is the usual.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from typing import Any
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from controlplane.contract.errors import BadRequest
from web.frame.time_range import TimeRange, duration, time_range

FILTERS = ("pool", "node", "revision", "prompt_bucket", "tenant", "model")
"""Labels that the bar filters by, as the API calls them."""
COMPARED = ("earlier", "revision", "node")
"""What a page can be compared with: the same span some time before, another revision, another node."""
SERVING: Mapping[str, Any] = {"role": "serving"}
"""What trial nodes replay is no traffic of a pool."""
LONGEST_WORD = 200
USUAL_RANGE = TimeRange()

_NUMBER = re.compile("[0-9]{1,18}")


@dataclass(frozen=True)
class Comparison:
    """`kind` of `COMPARED`; `with_` is a length of time ("1d"), a revision's number or a node's name."""

    kind: str
    with_: str

    @property
    def text(self) -> str:
        return f"{self.kind}:{self.with_}"

    @property
    def words(self) -> str:
        return f"{self.with_} earlier" if self.kind == "earlier" else f"{self.kind} {self.with_}"


@dataclass(frozen=True)
class Selection:
    """`now`: the moment for which the page is answered. `range_said`: the address says a time range, to which lists are
    cut. `own`: parameters of the page itself, by name.
    """

    now: datetime
    range: TimeRange = USUAL_RANGE
    range_said: bool = False
    filters: Mapping[str, str] = field(default_factory=dict)
    compare: Comparison | None = None
    timezone: str = "utc"
    paused: bool = False
    own: Mapping[str, str] = field(default_factory=dict)

    @property
    def pool(self) -> str | None:
        return self.filters.get("pool")

    @property
    def zone(self) -> tzinfo:
        return UTC if self.timezone == "utc" else ZoneInfo(self.timezone)

    @property
    def labels(self) -> dict[str, Any]:
        """The filters as the API takes them: of serving nodes, unless one node is asked for, whatever it does."""
        return dict(self.filters) if "node" in self.filters else {**SERVING, **self.filters}

    @property
    def span(self) -> dict[str, Any]:
        """The time range as the API takes it: one that goes on as its length, which all who look at it share."""
        start, end = self.range.at(self.now)
        if self.range.is_live:
            return {"window": f"{(end - start).total_seconds():.0f}s"}
        return {"start": start, "end": end}

    @property
    def step_s(self) -> int:
        return self.range.step_s(self.now)

    @property
    def step(self) -> str:
        """As the API takes it."""
        return f"{self.step_s}s"

    def covers(self, began: datetime, ended: datetime | None) -> bool:
        """Whether something that lasted so long, or lasts, is of the time that the address says, if any."""
        start, end = self.range.at(self.now)
        return not self.range_said or (began <= end and (ended is None or ended >= start))

    def with_pool(self, pool: str) -> "Selection":
        """The same of one pool, for parts that are about one."""
        return replace(self, filters={**self.filters, "pool": pool})

    def query(self, **changes: str | None) -> str:
        """The address' query with `changes` of single parameters; None takes one out. Starts with "?" or is empty."""
        said: dict[str, str | None] = {**self.said, **changes}
        kept = {name: value for name, value in said.items() if value}
        return "?" + urlencode(kept) if kept else ""

    def frame_query(self, **changes: str | None) -> str:
        """As `query`, without the page's own parameters: for links to other pages."""
        return replace(self, own={}).query(**changes)

    @property
    def said(self) -> dict[str, str]:
        """The parameters of the address, without those that say what is usual."""
        said = dict(self.own)
        if self.range_said:
            said |= {"from": self.range.start_word, "to": self.range.end_word}
        said |= self.filters
        if self.compare is not None:
            said["compare"] = self.compare.text
        if self.timezone != "utc":
            said["timezone"] = self.timezone
        if self.paused:
            said["refresh"] = "off"
        return said


def selection_of(params: Mapping[str, str], now: datetime) -> Selection:
    """What an address' query says. Raises `BadRequest` that names the parameter."""
    for name, value in params.items():
        if len(value) > LONGEST_WORD:
            raise BadRequest(f"{name[:40]}: wants at most {LONGEST_WORD} characters", field=name[:40])
    frame = {"from", "to", "compare", "timezone", "refresh", *FILTERS}
    return Selection(
        now=now,
        range=time_range(params.get("from", ""), params.get("to", ""), now),
        range_said=bool(params.get("from") or params.get("to")),
        filters={name: _filter(name, params[name]) for name in FILTERS if params.get(name)},
        compare=_comparison(params.get("compare", "")),
        timezone=_timezone(params.get("timezone", "")),
        paused=_paused(params.get("refresh", "")),
        own={name: value for name, value in params.items() if name not in frame and value},
    )


def is_number(text: str) -> bool:
    """Whether it is a number that a row may have: digits of ASCII, as few as the database's integers have."""
    return bool(_NUMBER.fullmatch(text))


def _filter(name: str, value: str) -> str:
    if name == "revision" and not is_number(value):
        raise BadRequest("revision: wants a revision's number", field=name)
    return value


def _comparison(text: str) -> Comparison | None:
    if not text:
        return None
    kind, _, with_ = text.partition(":")
    if kind not in COMPARED or not with_:
        raise BadRequest("compare: wants earlier:1d, revision:3 or node:NAME", field="compare")
    if kind == "earlier":
        duration(with_, "compare")
    elif kind == "revision":
        _filter("revision", with_)
    return Comparison(kind, with_)


def _timezone(name: str) -> str:
    if name in ("", "utc", "UTC"):
        return "utc"
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadRequest("timezone: wants utc or a zone's name such as Europe/Berlin", field="timezone") from None
    return name


def _paused(word: str) -> bool:
    if word not in ("", "on", "off"):
        raise BadRequest("refresh: wants on or off", field="refresh")
    return word == "off"
