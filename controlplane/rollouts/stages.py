"""How many nodes run a rollout's revision after each of its waves (pure).

Guarantees: sizes rise by one node at least and end with all; the first is the canary; no wave tells more than
`max_step_share` of the pool, but one node.
"""

import math

from controlplane.contract.bodies.rollouts import RolloutCreate


def wave_size(share: float, nodes: int) -> int:
    """How many nodes a share of a pool is, rounded down, at least one."""
    return max(1, math.floor(share * nodes + 1e-9))


def size_after(spec: RolloutCreate, told: int, nodes: int) -> int:
    """How many of `nodes` shall run the revision after the next wave, of which `told` have been told."""
    size = told + wave_size(spec.canary_share, nodes)
    if spec.stages:
        size = next((end for end in _ends(spec, nodes) if end > told), nodes)
    if spec.max_step_share is not None:
        size = min(size, told + wave_size(spec.max_step_share, nodes))
    return min(size, max(nodes, told))


def sizes(spec: RolloutCreate, nodes: int) -> list[int]:
    """The same after every wave, the canary first; an emergency has one."""
    found = [nodes] if spec.emergency else [size_after(spec, 0, nodes)]
    while found[-1] < nodes:
        found.append(size_after(spec, found[-1], nodes))
    return found


def pauses_after(spec: RolloutCreate, told: int, nodes: int) -> bool:
    """Whether these nodes end a stage after which a person shall look."""
    ends = zip(spec.stages, _ends(spec, nodes), strict=True)
    return any(stage.pause and end == told for stage, end in ends)


def _ends(spec: RolloutCreate, nodes: int) -> list[int]:
    ends: list[int] = []
    for stage in spec.stages:
        before = ends[-1] if ends else 0
        ends.append(min(max(wave_size(stage.share, nodes), before + 1), nodes))
    return ends
