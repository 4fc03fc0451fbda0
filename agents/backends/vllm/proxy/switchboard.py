"""Which server a request gets, and when: the decisions of the proxy without any I/O or clock.

Guarantees, for every order of calls:
- A request is with at most one server, from `place` answering `Go` to `not_taken` or `end`; `in_flight` counts exactly
  those. A switch never moves one that is running: it decides for the requests that come, and those that wait.
- While held, or without a target, or while the target cannot be reached, nothing is sent on: requests wait, no more
  than `Limits.waiting` of them with `Limits.waiting_bytes` of bodies together, each at most `Limits.hold_s` from its
  arrival over all its waits. Then, or beyond that room, it is refused.
- Every request that arrived ends once, and what it ended with is counted once.
"""

from dataclasses import dataclass, field
from enum import StrEnum

FIRST_PAUSE_S = 0.02  # Before the third attempt of a request; doubled each time. The second attempt follows at once.
LONGEST_PAUSE_S = 0.5


class Failure(StrEnum):
    """Why a request got an error of the proxy's own, or half an answer."""

    HELD = "held"  # Held longer than `hold_s`.
    NO_TARGET = "no_target"  # No target was named within `hold_s`.
    NOT_TAKEN = "not_taken"  # The target could not be reached, or closed without reading, for `hold_s`.
    NO_ROOM = "no_room"  # Too many requests, or bytes, wait already.
    STOPPING = "stopping"  # It would have to wait, and the proxy is ending.
    TOO_LARGE = "too_large"  # Its body is above the limit.
    STALLED = "stalled"  # Its body did not come.
    MALFORMED = "malformed"  # Its body broke off, or its headers cannot be passed on.
    LOST = "lost"  # The server took the request and went away before its answer began.
    BROKEN = "broken"  # The server went away in the middle of its answer.


@dataclass(frozen=True)
class Limits:
    hold_s: float = 120.0
    waiting: int = 4096
    waiting_bytes: int = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Go:
    """Send it to `url` now."""

    url: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Ask again at the next change of the switchboard, or at the time `until`."""

    until: float


@dataclass(frozen=True, slots=True)
class Refuse:
    failure: Failure


@dataclass(slots=True, eq=False)
class Ticket:
    """One request. `url` while it is with a server; `waiting` while it is with nobody."""

    size: int
    deadline: float
    url: str | None = None
    waiting: bool = False
    ended: bool = False
    attempts: int = 0
    not_before: float = 0.0
    change: int = 0  # The switch after which `not_before` was set: a later one lets go at once.


@dataclass
class Switchboard:
    """Times are seconds of one clock of the caller's that never goes back."""

    limits: Limits = field(default_factory=Limits)
    target: str | None = None
    held: bool = False
    stopping: bool = False
    unreachable: bool = False  # The target refused a connection; nobody is sent there until `reachable` or `switch`.
    waiting: int = 0
    waiting_bytes: int = 0
    requests: int = 0
    resent: int = 0
    left: int = 0
    failed: dict[Failure, int] = field(default_factory=dict)
    _in_flight: dict[str, int] = field(default_factory=dict)
    _switches: int = 0
    _held_at: float = 0.0
    _held_before_s: float = 0.0

    def switch(self, url: str, now: float) -> None:
        """New and waiting requests go to `url`; a hold is over. Also right for the same server, started again."""
        self._held_before_s = self.held_s(now)
        self.target, self.held, self.unreachable = url, False, False
        self._switches += 1

    def hold(self, now: float) -> None:
        """New requests wait. Holding twice is holding once, since the first."""
        if not self.held:
            self.held, self._held_at = True, now

    def stop(self) -> None:
        """Nobody waits any more: who would have to is refused. Others still get their answer."""
        self.stopping = True

    def reachable(self) -> None:
        """The target takes connections again."""
        self.unreachable = False

    def held_s(self, now: float) -> float:
        """Seconds held since the start, with the hold that is running."""
        return self._held_before_s + (now - self._held_at if self.held else 0.0)

    def held_since(self) -> float | None:
        return self._held_at if self.held else None

    def in_flight(self) -> dict[str, int]:
        """Requests with each server; the target is there with 0, too."""
        idle = {} if self.target is None else {self.target: 0}
        return {**idle, **self._in_flight}

    def arrive(self, size: int, now: float) -> Ticket:
        self.requests += 1
        return Ticket(size, now + self.limits.hold_s)

    def place(self, ticket: Ticket, now: float) -> Go | Wait | Refuse:
        """What to do with a request that is with nobody. `Refuse` changes nothing: `end` it with that failure."""
        assert ticket.url is None and not ticket.ended
        until = self._not_before(ticket)
        if self.target is not None and not self.held and not self.unreachable and now >= until:
            self._leave_queue(ticket)
            ticket.url = self.target
            ticket.attempts += 1
            self.resent += ticket.attempts > 1
            self._in_flight[self.target] = self._in_flight.get(self.target, 0) + 1
            return Go(self.target)
        if self.stopping:
            return Refuse(Failure.STOPPING)
        if now >= ticket.deadline:
            return Refuse(self._cause())
        if not ticket.waiting:
            if self.waiting >= self.limits.waiting or self.waiting_bytes + ticket.size > self.limits.waiting_bytes:
                return Refuse(Failure.NO_ROOM)
            ticket.waiting = True
            self.waiting += 1
            self.waiting_bytes += ticket.size
        return Wait(min(ticket.deadline, until) if until > now else ticket.deadline)

    def not_taken(self, ticket: Ticket, now: float, *, unreachable: bool) -> None:
        """The server surely did not read the whole request: it may be placed again, on what is then the target.

        `unreachable`: there was not even a connection.
        """
        url = self._leave_server(ticket)
        if unreachable and url == self.target:
            self.unreachable = True
        pause = 0.0 if ticket.attempts < 2 else min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(ticket.attempts - 2, 10))
        ticket.not_before, ticket.change = now + pause, self._switches

    def end(self, ticket: Ticket, failure: Failure | None = None, *, left: bool = False) -> None:
        """The request is over: answered, failed, or its client `left`."""
        assert not ticket.ended
        ticket.ended = True
        self._leave_queue(ticket)
        if ticket.url is not None:
            self._leave_server(ticket)
        if failure is not None:
            self.failed[failure] = self.failed.get(failure, 0) + 1
        elif left:
            self.left += 1

    def _not_before(self, ticket: Ticket) -> float:
        return ticket.not_before if ticket.change == self._switches else 0.0

    def _cause(self) -> Failure:
        if self.held:
            return Failure.HELD
        return Failure.NO_TARGET if self.target is None else Failure.NOT_TAKEN

    def _leave_queue(self, ticket: Ticket) -> None:
        if ticket.waiting:
            ticket.waiting = False
            self.waiting -= 1
            self.waiting_bytes -= ticket.size

    def _leave_server(self, ticket: Ticket) -> str:
        url = ticket.url
        assert url is not None
        ticket.url = None
        self._in_flight[url] -= 1
        if not self._in_flight[url]:
            del self._in_flight[url]
        return url
