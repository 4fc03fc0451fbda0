"""The agent's hot path: cuts the engine's stream into runs of consecutive events, one run a report.

Guarantee: every event is in exactly one run, and runs follow one another by sequence number. A run ends where the
first event of a later report interval begins, or when `seal_overdue` finds it overdue (an idle engine), so a window of
a steady engine is reported whole, in one report. An event that comes late (its clock stepped back) is counted in the
run that is open, under its own window: two parts of a window are two reports, told apart by their ordinals.
"""

import logging
from collections.abc import Mapping
from typing import Any

from agents.agent.reports.batch_history import BatchHistory
from agents.agent.reports.tally import Tally
from agents.backends.base import Position
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.reports.engine_event import EngineEvent, Hello

log = logging.getLogger(__name__)


class Accumulator:
    """Counts events into the open tally and hands out sealed ones with `take`. `position`: what is spooled already."""

    def __init__(self, position: Position | None, interval_s: float, window_s: float = WINDOW_S) -> None:
        self.boot = position.boot if position is not None else ""
        self._last = position.seq if position is not None else -1
        self._interval_s = interval_s
        self._window_s = window_s
        self._model = ""
        self._open: Tally | None = None
        self._sealed: list[Tally] = []
        self._malformed = 0
        self._batches = BatchHistory()

    @property
    def read_to(self) -> Position | None:
        """The last event seen; where a broken stream is taken up again."""
        return Position(self.boot, self._last) if self.boot else None

    @property
    def has_sealed(self) -> bool:
        return bool(self._sealed)

    def hello(self, hello: Hello) -> bool:
        """Begin or resume a stream. True when the engine is another process than the one last seen."""
        restarted = hello["boot"] != self.boot
        if restarted or hello["model"] != self._model:
            self.seal()
        self._model = hello["model"]
        if restarted:
            first_ever = not self.boot
            self.boot = hello["boot"]
            # Sequence numbers start at 1 (or 0). What an engine did before this agent first saw it is nobody's loss.
            self._last = hello["oldest"] - 1 if first_ever else min(0, hello["oldest"] - 1)
        return restarted

    def count(self, event: EngineEvent) -> None:
        """Count one event, once: one that was counted before is passed over, a gap in the numbers is missed events."""
        fields: Mapping[str, Any] = event
        seq, time_s = fields.get("seq"), fields.get("time")
        if not isinstance(seq, int) or not isinstance(time_s, (float, int)):
            self.malformed(f"no seq or no time in {str(event)[:200]}")
            return
        if seq <= self._last:
            return
        tally = self._tally_for(time_s)
        if seq > self._last + 1:
            tally.missed += seq - self._last - 1
            log.warning("%d engine events were missed before number %d", seq - self._last - 1, seq)
        self._last = seq
        try:
            tally.count(event, self.boot)
            self._batches.see(event)
        except (KeyError, TypeError, ValueError) as error:
            self.malformed(f"event {seq}: {type(error).__name__} {error}")
            tally.missed += 1

    def count_lost(self, time_s: float, revision: int, requests: Mapping[str, int]) -> None:
        """Count requests that no event tells of, by finish reason; nothing before an engine was seen."""
        read_to = self.read_to
        if read_to is not None and any(requests.values()):
            self._tally_for(time_s).count_lost(time_s, revision, requests, read_to)

    def malformed(self, what: str) -> None:
        """Note an event that cannot be counted; the first few are logged."""
        self._malformed += 1
        if self._malformed <= 5:
            log.error("the engine sent an event that cannot be counted, passed over: %s", what)

    def seal_overdue(self, now_s: float, grace_s: float) -> None:
        """Seal the open run when its interval ended more than `grace_s` ago, or lies ahead of the clock."""
        present = self.span_of(now_s - grace_s)
        if self._open is not None and not present <= self._open.span <= present + 1:
            self.seal()

    def seal(self) -> None:
        """End the open run, if it holds anything."""
        if self._open is not None and not self._open.empty:
            self._sealed.append(self._open)
        self._open = None

    def take(self) -> list[Tally]:
        """The sealed runs, oldest first; each is handed out once."""
        sealed, self._sealed = self._sealed, []
        return sealed

    def span_of(self, time_s: float) -> int:
        """The number of the report interval that holds a time (seconds since the epoch)."""
        return int(time_s // self._interval_s)

    def _tally_for(self, time_s: float) -> Tally:
        if self._open is not None and 0 <= time_s - self._open.span_start_s < self._interval_s:
            return self._open
        span = self.span_of(time_s)
        if self._open is not None and span > self._open.span:
            self.seal()
        if self._open is None:
            self._open = Tally(span, self._interval_s, self._model, self._window_s)
        return self._open
