"""What bringing a node to a wanted configuration takes: pure, from what the node reports of itself.

Guarantee: nothing is made up. Where a node does not tell what its changes cost, `expected_s` is None and the caller
has to say what it supposes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from controlplane.contract.bodies.nodes import EffectiveConfig
from controlplane.contract.knobs import KNOBS, ChangeClass, difference, largest
from controlplane.contract.reports.declared_knobs import started_as

_HARDER = (ChangeClass.LIVE, ChangeClass.SWAP, ChangeClass.RESTART)

LONGEST_CHANGE_S = 600.0
"""How long a change that is not live may take at least before it counts as failed, whatever earlier ones took."""
COST_MARGIN = 4.0
"""... and so many times what such a change has cost before, where that is more."""
LIVE_CHANGE_S = 30.0
"""How long a live change may take."""


def hardest(classes: Iterable[ChangeClass | None]) -> ChangeClass | None:
    """None where none of them is one."""
    return max((one for one in classes if one is not None), key=_HARDER.index, default=None)


def class_of(name: str, backend: str, effective: EffectiveConfig | None = None) -> ChangeClass:
    """A knob's class on this node; the contract's for its backend where the node does not say. One that it does not
    declare is a restart at least: somebody has to declare it first."""
    if effective is not None and name in effective.change_classes:
        return effective.change_classes[name]
    if effective is not None and name in effective.declared:
        return effective.declared[name].change_class
    knob = KNOBS.get(name)
    if knob is None:
        return ChangeClass.RESTART
    return knob.vllm if backend == "vllm" else knob.embedded


def needed_class(backend: str, effective: EffectiveConfig, wanted: Mapping[str, Any]) -> ChangeClass | None:
    """The hardest class among the knobs that have to change for `wanted`; None when none has to.

    A live knob beyond the node's `live_floors` and `live_limits` needs a restart. A knob that the node does not report
    counts as equal; one that it declares and `wanted` does not name is wanted as it was at the start.
    """
    found: list[ChangeClass] = []
    known = {name: value for name, value in wanted.items() if name in KNOBS or name in effective.declared}
    known = started_as(effective.declared, known)
    for name, (value, _) in difference(known, effective.knobs).items():
        needed = class_of(name, backend, effective)
        if needed is ChangeClass.LIVE and not goes_live(effective, name, value):
            needed = ChangeClass.RESTART
        found.append(needed)
    return hardest(found)


def goes_live(effective: EffectiveConfig, name: str, value: Any) -> bool:
    """Whether a live knob of the contract takes this value while the engine serves."""
    least, most = effective.live_floors.get(name), effective.live_limits.get(name)
    if least is None and most is None:
        return True
    number = largest(value)
    return (most is None or number <= most) and (least is None or number >= least or number == 0)


def restarting(effective: EffectiveConfig, wanted: Mapping[str, Any]) -> list[str]:
    """The declared knobs that differ from what runs and want another process: nobody knows what memory they take."""
    differing = difference(started_as(effective.declared, wanted), effective.knobs)
    own = effective.declared
    return [name for name in differing if name in own and own[name].change_class is not ChangeClass.LIVE]


def expected_s(effective: EffectiveConfig, needed: ChangeClass | None) -> float | None:
    """Seconds such a change took on the node until it was in force and warm; None where nobody has measured one."""
    if needed is None:
        return 0.0
    cost = effective.costs.get(needed)
    return None if cost is None else cost.mean_s + cost.warm_up_s


def warm_up_s(effective: EffectiveConfig, needed: ChangeClass) -> float:
    """What of that is warm-up; 0 where none was measured."""
    cost = effective.costs.get(needed)
    return 0.0 if cost is None else cost.warm_up_s


def patience_s(effective: EffectiveConfig | None, needed: ChangeClass | None) -> float:
    """How long to wait for such a change before it counts as failed."""
    if needed in (None, ChangeClass.LIVE):
        return LIVE_CHANGE_S
    known = None if effective is None else effective.costs.get(needed)
    return max(LONGEST_CHANGE_S, 0.0 if known is None else COST_MARGIN * max(known.mean_s, known.last_s))
