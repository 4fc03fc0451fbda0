"""Alerts of others that there was no room for, counted by reason, and logged."""

import logging
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter

from controlplane.inbound.room import MOST_A_DAY, MOST_OPEN, Refusal

log = logging.getLogger(__name__)

WORDS = {
    Refusal.OPEN: f"{MOST_OPEN} of them fire already",
    Refusal.NEW: f"{MOST_A_DAY} of them were new within a day",
}


class Refusals:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """registry: where it is shown; None: nowhere."""
        said = "New alerts of other systems that were not taken, by reason."
        self._refused = Counter("tailwright_inbound_alerts_refused", said, ["reason"], registry=registry)
        for reason in Refusal:
            self._refused.labels(reason.value)

    def note(self, source: str, refused: Mapping[Refusal, int]) -> None:
        for reason, count in refused.items():
            self._refused.labels(reason.value).inc(count)
            log.warning("%d new alerts of %s were not taken: %s", count, source, WORDS[reason])
