"""How long things are kept, and therefore how old a report may be."""

from dataclasses import dataclass
from datetime import datetime, timedelta

HOUR_S = 3600.0
FRAMES_S = 48 * HOUR_S
REPEATS_S = 48 * HOUR_S
REQUESTS_S = 48 * HOUR_S
SLACK_S = 600.0
"""Hashes of repeats outlive the oldest acceptable point by this much, so that none is ever accepted unrecognised."""


@dataclass(frozen=True)
class Retention:
    """Seconds of event time. A report older than `accepted_from` is refused: its repeat could not be recognised."""

    frames_s: float = FRAMES_S
    repeats_s: float = REPEATS_S
    requests_s: float = REQUESTS_S

    def frames_from(self, now: datetime) -> datetime:
        return now - timedelta(seconds=self.frames_s + SLACK_S)

    def repeats_from(self, now: datetime) -> datetime:
        return now - timedelta(seconds=self.repeats_s + SLACK_S)

    def requests_from(self, now: datetime) -> datetime:
        return now - timedelta(seconds=self.requests_s + SLACK_S)

    def accepted_from(self, now: datetime) -> datetime:
        return now - timedelta(seconds=min(self.frames_s, self.repeats_s))

    def requests_accepted_from(self, now: datetime) -> datetime:
        return now - timedelta(seconds=self.requests_s)
