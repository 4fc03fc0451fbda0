"""Which alerts a silence holds back."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from controlplane.contract.bodies.alerts import Silence


def matches(matchers: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """True when the alert has each of the silence's labels with the same value. No matchers match nothing."""
    return bool(matchers) and all(labels.get(name) == value for name, value in matchers.items())


def active(silence: Silence, at: datetime) -> bool:
    """True from its start until its end, or until somebody ended it early."""
    return silence.starts_at <= at < (silence.ended_early_at or silence.ends_at)


def silenced(silences: Iterable[Silence], labels: Mapping[str, str], at: datetime) -> bool:
    """True when any silence that is active at `at` matches the labels."""
    return any(active(silence, at) and matches(silence.matchers, labels) for silence in silences)
