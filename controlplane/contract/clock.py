"""Time as a value that is handed in: nothing below an application edge reads the wall clock by itself."""

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Returns the present as a timezone-aware datetime in UTC."""


def utc_now() -> datetime:
    """The wall clock, in UTC. Pass it where a `Clock` is wanted; tests pass their own."""
    return datetime.now(UTC)
