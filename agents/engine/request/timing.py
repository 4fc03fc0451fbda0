"""One request's clock: the marks of its life and the parts between them.

Guarantee: every part is the difference of its own two marks on one monotonic clock, so that what no part covers shows
up as `unaccounted` instead of being spread over the others. docs/design.md, "The decomposition":
  receive      arrival (first ASGI call) until the body is parsed and validated
  tokenize     text to token ids, and the request made ready for the engine (limits, parameters, block hashes)
  queue        handed to the engine until first scheduled
  prefill      first scheduled until the first token was committed
  decode       first token committed until the last one was
  send         last token committed until the last byte was written (detokenizing included)

A preempted request waits and recomputes inside the part it was in (prefill or decode): `queue` ends for good when it is
first scheduled, so that the chain stays additive; `tailwright.preemptions` tells the cause. An aborted request ends in
the part it was in: parts it never reached are zero.
"""

import time
from dataclasses import dataclass, field

from controlplane.contract import metrics

monotonic = time.perf_counter
"""The clock of every mark, seconds."""


@dataclass(slots=True)
class RequestClock:
    """Marks in seconds of `monotonic`; None: not reached."""

    arrived: float = field(default_factory=monotonic)
    arrived_unix: float = field(default_factory=time.time)
    received: float | None = None
    tokenize_started: float | None = None
    tokenized: float | None = None
    submitted: float | None = None
    scheduled: float | None = None
    first_token: float | None = None
    last_token: float | None = None
    first_sent: float | None = None
    ended: float | None = None

    @property
    def ttft(self) -> float | None:
        """Arrival until the first chunk was written; for an answer in one piece, until the first token's commit."""
        mark = self.first_sent if self.first_sent is not None else self.first_token
        return None if mark is None else mark - self.arrived

    def tpot(self, output_tokens: int) -> float | None:
        """Seconds per output token after the first; None with fewer than two."""
        if self.ended is None or self.ttft is None or output_tokens < 2:
            return None
        return (self.ended - self.arrived - self.ttft) / (output_tokens - 1)

    def parts(self, finished: bool = True) -> dict[str, float]:
        """e2e and its parts by short metric name. finished=False: the request ended early, in the part it was in."""
        assert self.ended is not None
        last = self.last_token if finished else None
        parts = {
            metrics.RECEIVE.short: self._between(self.arrived, self.received),
            metrics.TOKENIZE.short: self._between(self.tokenize_started, self.tokenized),
            metrics.QUEUE.short: self._between(self.submitted, self.scheduled),
            metrics.PREFILL.short: self._between(self.scheduled, self.first_token),
            metrics.DECODE.short: self._between(self.first_token, last),
            metrics.SEND.short: self._between(last, self.ended),
        }
        e2e = self.ended - self.arrived
        return {metrics.E2E.short: e2e, **parts, metrics.UNACCOUNTED.short: e2e - sum(parts.values())}

    def _between(self, start: float | None, end: float | None) -> float:
        if start is None:
            return 0.0
        assert self.ended is not None
        return (self.ended if end is None else end) - start
