"""The likeliest cause of an alert, as far as a remedy depends on it (pure)."""

from dataclasses import dataclass

from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.bodies.cause_kinds import CauseKind


@dataclass(frozen=True)
class Cause:
    """Kinds that are not known here count as a matter of tuning."""

    kind: str
    message: str = ""
    score: float = 0.0
    revision: int | None = None
    rollout_id: int | None = None
    node: str | None = None


def likeliest(alert: Alert) -> Cause:
    """The first cause of the diagnosis; "unknown" for an alert that has none."""
    if alert.diagnosis is None or not alert.diagnosis.causes:
        return Cause(CauseKind.UNKNOWN.value, "the alert has no diagnosis")
    first = alert.diagnosis.causes[0]
    kind = str(first.get("cause", CauseKind.UNKNOWN.value))
    changed = kind == CauseKind.CONFIG_CHANGE
    return Cause(
        kind=kind,
        message=str(first.get("message", "")),
        score=float(first.get("score", 0.0)),
        revision=first.get("revision") if changed else None,
        rollout_id=first.get("rollout_id") if changed else None,
        node=first.get("node"),
    )


def slowdown(alert: Alert) -> float | None:
    """The observed quantile over the limit or the baseline; None where either is not known."""
    return alert.value / alert.threshold if alert.value and alert.threshold else None
