"""Whether an alert has the labels that a silence, an inhibit rule or a destination is about. Pure."""

from collections.abc import Mapping

from controlplane.alerts.matching.label_pattern import compiled
from controlplane.contract.bodies.alerts import Silenced


def matches(wanted: Silenced, labels: Mapping[str, str]) -> bool:
    """True when the alert has each of these labels with the same value, or with one of its pattern. Of no
    labels nothing has them."""
    if not wanted.matchers and not wanted.patterns:
        return False
    same = all(labels.get(name) == value for name, value in wanted.matchers.items())
    patterns = ((name, compiled(text)) for name, text in wanted.patterns.items())
    return same and all(name in labels and pattern.matches(labels[name]) for name, pattern in patterns)
