"""What an incident's alerts name: their causes as one list, the likeliest first, and what moved the quantile. Pure."""

from collections.abc import Iterable
from typing import Any

from controlplane.alerts.diagnosis.change_event import behind_measured
from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.on_call.attribution import Attribution

Named = tuple[str, str, str]


def ranked_causes(alerts: Iterable[Alert]) -> list[dict[str, Any]]:
    """Each once, with the evidence of the alert that gives it the highest score, and the alerts that name it. Who
    brought a load explains as much as the load does, and goes before it; a mark of others goes behind what any alert
    measured as explaining it.

    That nothing was found is said only where no alert found anything.
    """
    best: dict[Named, dict[str, Any]] = {}
    named_by: dict[Named, list[int]] = {}
    for alert in alerts:
        for cause in [] if alert.diagnosis is None else alert.diagnosis.causes:
            name = _name(cause)
            named_by.setdefault(name, []).append(alert.id)
            if name not in best or _score(cause) > _score(best[name]):
                best[name] = cause
    known = [name for name in best if name[0] != CauseKind.UNKNOWN] or list(best)
    known.sort(key=lambda name: (-_score(best[name]), name[0] == CauseKind.LOAD, -len(named_by[name]), name))
    return behind_measured([{**best[name], "alerts": named_by[name]} for name in known])


def told_attribution(alerts: Iterable[Alert]) -> Attribution | None:
    """Of the first alert that names a place; where none does, of the first that knows what moved it."""
    told = [one.diagnosis.attribution for one in alerts if one.diagnosis is not None]
    known = [one for one in told if one is not None]
    return next((one for one in known if one.place is not None), known[0] if known else None)


def _name(cause: dict[str, Any]) -> Named:
    return str(cause.get("cause", "")), str(cause.get("revision") or ""), str(cause.get("node") or "")


def _score(cause: dict[str, Any]) -> float:
    return float(cause.get("score") or 0.0)
