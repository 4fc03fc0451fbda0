"""Sends one finished interval after the other, and remembers durably how far it has come.

Guarantees: at least once: an interval counts as delivered after the receiver's 2xx only, and a restart goes on where
the last run stopped; in order; a failure is tried again with growing pauses; what falls more than the longest lag
behind is given up, counted and logged, so that a dead receiver costs no more than that when it returns.
"""

import logging
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from controlplane.contract.errors import TailwrightError
from controlplane.contract.retry import doubling_s
from controlplane.db.database import Database
from controlplane.telemetry.forwarding.attempt import Refused, Undelivered
from controlplane.telemetry.forwarding.meters import ExportMeters
from controlplane.telemetry.forwarding.position import Position, Positions
from controlplane.telemetry.values.interval import after, floor
from controlplane.telemetry.values.timespan import Span

logger = logging.getLogger(__name__)

TICK_S = 20.0
"""A tick that catches up ends after so long, well within its lease."""


@dataclass(frozen=True)
class Sent:
    """What a receiver took of an interval, and what it refused while it took the rest.

    late: values of earlier intervals that have come since those were sent; they are among the points.
    """

    points: int = 0
    refused: int = 0
    late: int = 0


class Sender(Protocol):
    """Delivers one interval. Invariants: it returns after the receiver has acknowledged everything; sending the same
    interval again sends the same points with the same times; it raises `Undelivered` or `Refused`, as they say."""

    name: str
    interval_s: int

    def send(self, interval: Span) -> Sent: ...

    def close(self) -> None: ...


class Exporter:
    """Call `tick` every second or so, from one thread; several replicas may run at once.

    delay_s: how long an interval waits for late reports before it is sent, also after a start, when agents hand over
    what they spooled; what comes later is the sender's to deal with. longest_lag_s: beyond it intervals are given up.
    """

    def __init__(
        self, sender: Sender, database: Database, meters: ExportMeters, *, delay_s: float, longest_lag_s: float
    ) -> None:
        self.name = sender.name
        self.error = ""
        """The kind of the last attempt's failure; empty when it went well."""
        self._sender = sender
        self._positions = Positions(database, sender.name)
        self._meters = meters
        self._delay = timedelta(seconds=delay_s)
        self._longest_lag = timedelta(seconds=longest_lag_s)
        self._ready_at: datetime | None = None
        self._delivered_until: datetime | None = None
        self._stopping = threading.Event()
        meters.begin(self.name)

    def stop(self) -> None:
        """Let a running tick end after its present interval."""
        self._stopping.set()

    def close(self) -> None:
        self._sender.close()

    def tick(self, now: datetime) -> int:
        """Send what is due; returns how many intervals were done with."""
        self._ready_at = self._ready_at or now + self._delay
        done = 0
        give_over_at = time.monotonic() + TICK_S
        while not self._stopping.is_set() and time.monotonic() < give_over_at and self._next(now):
            done += 1
        return done

    def report(self) -> dict[str, Any]:
        """For /readyz: no text of the receiver's, anybody may ask."""
        until = self._delivered_until
        return {
            "failing": bool(self.error),
            "last_error": self.error,
            "delivered_until": None if until is None else until.isoformat(),
        }

    def _next(self, now: datetime) -> bool:
        """One interval. False when there is nothing to do now."""
        finished = now - self._delay
        seen = self._positions.read(floor(finished, self._sender.interval_s))
        self._show(seen.at, now)
        oldest = floor(now - self._longest_lag, self._sender.interval_s)
        if seen.at < oldest:
            return self._give_up(seen, oldest)
        interval = after(seen.at, self._sender.interval_s)
        resting = seen.rest_until is not None and seen.rest_until > now
        if interval.end > finished or resting or now < (self._ready_at or now):
            return False
        held = self._positions.lease(seen, now)
        return held is not None and self._send(held, interval, now)

    def _send(self, held: Position, interval: Span, now: datetime) -> bool:
        try:
            sent = self._sender.send(interval)
        except (Undelivered, TailwrightError) as error:
            # A reader's refusal (too many series for one answer) waits too: nothing is given up but for its age.
            known = error if isinstance(error, Undelivered) else Undelivered(error.code, error.message)
            logger.warning("export %s: the interval of %s waits: %s", self.name, interval.start.isoformat(), known)
            self._fail(known.kind)
            pause_s = max(doubling_s(held.attempts), known.retry_after_s)
            self._positions.rest(held, now + timedelta(seconds=pause_s))
            return False
        except Refused as error:
            logger.error("export %s: the interval of %s is given up: %s", self.name, interval.start.isoformat(), error)
            self._meters.dropped.labels(self.name, "refused").inc()
            self._fail("Refused")
        else:
            self._meters.intervals.labels(self.name).inc()
            self._meters.points.labels(self.name).inc(sent.points)
            self._meters.points_refused.labels(self.name).inc(sent.refused)
            self._meters.late.labels(self.name).inc(sent.late)
            self.error = ""
            self._meters.failing.labels(self.name).set(0)
        moved = self._positions.advance(held, interval.end)
        self._show(interval.end, now)
        return moved

    def _give_up(self, seen: Position, oldest: datetime) -> bool:
        missed = round((oldest - seen.at).total_seconds() / self._sender.interval_s)
        if not self._positions.advance(seen, oldest):
            return False
        self._meters.dropped.labels(self.name, "lag").inc(missed)
        logger.error("export %s: %d intervals from %s on are given up", self.name, missed, seen.at.isoformat())
        return True

    def _fail(self, kind: str) -> None:
        self.error = kind
        self._meters.failures.labels(self.name).inc()
        self._meters.failing.labels(self.name).set(1)

    def _show(self, position: datetime, now: datetime) -> None:
        self._delivered_until = position
        self._meters.lag_seconds.labels(self.name).set(max(0.0, (now - position).total_seconds()))
