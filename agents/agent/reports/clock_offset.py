"""How far the service's clock is from this node's, from the time that the service writes into its answers.

Guarantee: the true offset lies within `error_s` of the one told, as long as neither clock was set between sending and
receiving: the service's time was taken somewhere between the two, so it differs from their middle by at most half the
round trip (Mills, RFC 5905, section 8). The best of the last `KEPT_S` is told, the one with the shortest round trip.
"""

from collections import deque
from dataclasses import dataclass

KEPT_S = 60.0


@dataclass(frozen=True)
class ClockReading:
    """`offset_s`: the service's clock less this node's."""

    offset_s: float
    error_s: float


class ClockOffset:
    """Times are nanoseconds since the epoch on the clock in question; `at_s` is this node's monotonic clock."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, ClockReading]] = deque(maxlen=1000)

    def measure(self, sent_ns: int, received_ns: int, server_ns: int, at_s: float) -> None:
        """One answer. `received_ns` is `sent_ns` plus the time that passed: a step of the clock adds nothing to it."""
        middle_ns = (sent_ns + received_ns) // 2
        reading = ClockReading((server_ns - middle_ns) / 1e9, (received_ns - sent_ns) / 2e9)
        self._readings.append((at_s, reading))

    def best(self, now_s: float) -> ClockReading | None:
        """The surest reading of the last while; None where there is none."""
        while self._readings and self._readings[0][0] < now_s - KEPT_S:
            self._readings.popleft()
        return min((reading for _, reading in self._readings), key=lambda reading: reading.error_s, default=None)
