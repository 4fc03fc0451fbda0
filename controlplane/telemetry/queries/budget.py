"""What a query may take of the service: series, bytes and time of an answer, and the heavy queries of a token at once.

Guarantee: a query that reads more than `HEAVY_ROWS` has one of its token's places from then on, or ends with 429; the
others wait for nothing. Which are heavy, which series are kept and what is too large follow from the data alone, not
from how busy the machine is; `seconds` is the one limit by the clock.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from controlplane.contract.bodies.telemetry import SeriesLeftOut
from controlplane.contract.errors import DeadlineUnmet, Overloaded, TooLarge
from controlplane.serving.limits import Doorkeeper, Refused
from controlplane.telemetry.question import Question

HEAVY_ROWS = 250_000
"""Label sets times windows, as they are read: a tenth of a second of one core, or more."""
CELL_BYTES = 64
"""An answer has at least so many bytes for each group and step."""
RETRY_AFTER_S = 2.0
_MEND = "take a shorter span, a longer step, fewer labels in by, or a filter"
LEFT_OUT = "those with the most requests are kept; filter by labels, group by fewer, or ask for fewer with top"


@dataclass(frozen=True)
class QueryLimits:
    """series: of one answer; heavy_at_once: by one token."""

    series: int = 1_000
    answer_bytes: int = 16 << 20
    seconds: float = 20.0
    heavy_at_once: int = 2

    @property
    def cells(self) -> int:
        """Groups times steps that an answer may be made from."""
        return self.answer_bytes // CELL_BYTES


@dataclass(eq=False)
class QueryDesk:
    """Where a service's queries get their budgets. Thread-safe."""

    limits: QueryLimits = field(default_factory=QueryLimits)
    door: Doorkeeper = field(default_factory=Doorkeeper)
    monotonic: Callable[[], float] = time.monotonic
    heavy: Counter[Hashable] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def query(self, token: Hashable | None) -> "Iterator[Budget]":
        """One query of the token or person known by this; None: of the service itself, bounded elsewhere."""
        budget = Budget(self, token)
        try:
            yield budget
        finally:
            budget.end()

    def enter(self, token: Hashable) -> None:
        """A heavy query begins: it must leave. Raises `Overloaded`."""
        with self._lock:
            if self.heavy[token] < self.limits.heavy_at_once:
                self.heavy[token] += 1
                return
        self.refuse(Refused.QUERIES_AT_ONCE)
        raise Overloaded(
            f"query: {self.limits.heavy_at_once} heavy queries of this token are being answered; ask again when one is",
            retry_after_s=RETRY_AFTER_S,
        )

    def leave(self, token: Hashable) -> None:
        with self._lock:
            self.heavy[token] -= 1
            if not self.heavy[token]:
                del self.heavy[token]

    def refuse(self, reason: Refused) -> None:
        with self._lock:
            self.door.refuse(reason)


class Budget:
    """Of one query, in one thread: what it has cost so far. Every method but `end` raises when that is too much."""

    def __init__(self, desk: QueryDesk, token: Hashable | None) -> None:
        self._desk = desk
        self._token = token
        self._give_up_at_s = desk.monotonic() + desk.limits.seconds
        self._rows = 0
        self._is_heavy = False

    def read(self, rows: int) -> None:
        """So many rows more are about to be added up."""
        self._rows += rows
        if self._rows > HEAVY_ROWS and not self._is_heavy and self._token is not None:
            self._desk.enter(self._token)
            self._is_heavy = True
        if self._desk.monotonic() > self._give_up_at_s:
            self._desk.refuse(Refused.QUERY_TIME)
            raise DeadlineUnmet(f"query: not answered within {self._desk.limits.seconds:g} s; {_MEND}")

    def made(self, cells: int) -> None:
        """The answer is of so many groups times steps."""
        most = self._desk.limits.cells
        if cells > most:
            self._desk.refuse(Refused.ANSWER_BYTES)
            raise TooLarge(f"step: {cells} groups times steps, over {most}, in one answer; {_MEND}", field="step")

    def written(self, answer: bytes) -> bytes:
        """The answer as it goes out."""
        most = self._desk.limits.answer_bytes
        if len(answer) > most:
            self._desk.refuse(Refused.ANSWER_BYTES)
            raise TooLarge(f"answer: {len(answer)} bytes, over {most}; {_MEND}", field="step")
        return answer

    def end(self) -> None:
        if self._is_heavy and self._token is not None:
            self._is_heavy = False
            self._desk.leave(self._token)


def bounded(asked: Question, series: int, budget: Budget) -> Question:
    """The question with at most so many series in its answer, at this budget's cost."""
    return replace(asked, most=min(series, asked.most or series), cost=budget)


def kept(requests: Sequence[float], most: int | None) -> Sequence[int]:
    """Places of the series that stay in an answer of at most `most`, ascending: those with the most requests, of equal
    ones the first."""
    places = range(len(requests))
    if most is None or len(requests) <= most:
        return places
    return sorted(sorted(places, key=lambda place: -requests[place])[:most])


def left_out(found: int, stay: int) -> SeriesLeftOut | None:
    """What the answer says of series that do not stay in it."""
    return None if found == stay else SeriesLeftOut(series=found - stay, mend=LEFT_OUT)
