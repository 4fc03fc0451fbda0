"""A token bucket: how many messages a destination gets now, so that it never gets more a minute than it bears. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

BURST_S = 10.0
"""A rest of this many seconds fills the bucket: so much may go at once."""


@dataclass(frozen=True)
class Bucket:
    """tokens: messages that may go at `at`."""

    tokens: float
    at: datetime


def capacity(per_minute: int) -> float:
    return max(1.0, per_minute * BURST_S / 60)


def filled(bucket: Bucket | None, per_minute: int, now: datetime) -> Bucket:
    """The bucket now; a new one is full. A clock that was set back takes nothing away."""
    if bucket is None:
        return Bucket(capacity(per_minute), now)
    passed_s = max(0.0, (now - bucket.at).total_seconds())
    return Bucket(min(capacity(per_minute), bucket.tokens + passed_s * per_minute / 60), now)


def next_at(bucket: Bucket | None, per_minute: int, now: datetime) -> datetime | None:
    """When the next message may go; None: now."""
    lacking = 1.0 - filled(bucket, per_minute, now).tokens
    return None if lacking <= 1e-9 else now + timedelta(seconds=lacking * 60 / per_minute)
