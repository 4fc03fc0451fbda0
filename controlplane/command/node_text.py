"""A node in words: its state, the knobs in force, and what changes have cost there. Pure."""

from controlplane.contract.bodies.change import class_of
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.duration_text import duration_text
from controlplane.contract.knobs import ChangeClass
from controlplane.contract.planning.memory_estimate import estimate
from controlplane.contract.reports.declared_knobs import names_in_order


def state_text(node: NodeView) -> str:
    """healthy, unhealthy or offline, why, and whether it runs something else than it should."""
    state = "offline" if not node.connected else "healthy" if node.healthy else "unhealthy"
    if node.connected and node.health_detail:
        state += f" ({'degraded: ' if node.healthy else ''}{node.health_detail})"
    return state + (", differs" if node.drift else "")


def knobs_text(node: NodeView) -> str:
    """name=value of each, those whose change is not live marked with what it takes; "-" where nothing was told."""
    if node.effective is None:
        return "-"
    parts = []
    for name in names_in_order(node.effective.knobs):
        needed = class_of(name, node.backend, node.effective)
        mark = "" if needed is ChangeClass.LIVE else f" ({needed.value})"
        parts.append(f"{name}={node.effective.knobs[name]}{mark}")
    return " ".join(parts) or "-"


def memory_text(node: NodeView) -> str:
    """Whether what it runs fits its memory, by term; "-" where it does not tell its memory."""
    if node.effective is None or node.effective.memory is None:
        return "-"
    return estimate(node.effective.memory, node.effective.knobs, {}).sentence


def changes_text(node: NodeView) -> list[str]:
    """A line for the weight formats, and one for each kind of change that was measured."""
    if node.effective is None:
        return []
    lines = [f"formats: {', '.join(node.effective.formats)}"] if node.effective.formats else []
    for kind, cost in node.effective.costs.items():
        waited = f", requests waited {duration_text(cost.unavailable_s)}" if cost.unavailable_s else ""
        if cost.warm_ups:
            lost = duration_text(cost.capacity_lost_s)
            waited += f", warm after {duration_text(cost.warm_up_s)} more; {lost} of full capacity lost"
        mean, last = duration_text(cost.mean_s), duration_text(cost.last_s)
        lines.append(f"a {kind.value} change: {mean} on average, {last} last{waited}")
    return lines
