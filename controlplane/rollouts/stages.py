"""How many nodes run a rollout's revision after each of its waves, and of which group each wave is (pure).

Guarantees: sizes rise by one node at least and end with all; the first is the canary; no wave tells more than
`max_step_share` of the pool, but one node; no wave mixes two groups.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from controlplane.contract.bodies.rollouts import RolloutCreate

NO_GROUP = ""
"""Of nodes without the label that waves go by, and of all where they go by none."""


@dataclass(frozen=True)
class Groups:
    """Nodes that no wave mixes: the value of `wave_by` and how many have it, in the order in which they are told.
    `canary`: how many are the canary, or can be at most; None: as many as the stage says."""

    counts: tuple[tuple[str, int], ...]
    canary: int | None = None

    @property
    def nodes(self) -> int:
        return sum(count for _, count in self.counts)

    @cached_property
    def ends(self) -> list[int]:
        """How many nodes have been told once each group is done."""
        return list(accumulate(count for _, count in self.counts))

    def of(self, told: int) -> str:
        """The group of which the last of so many nodes is."""
        place = bisect_left(self.ends, told)
        return self.counts[place][0] if place < len(self.counts) else NO_GROUP


def alike(nodes: int) -> Groups:
    """Of a pool whose waves go by no label."""
    return Groups(((NO_GROUP, nodes),) if nodes else ())


def grouped(groups: Mapping[str, str], told: Sequence[str], order: Sequence[str], canary: int | None = None) -> Groups:
    """groups: by node. The groups of which nodes were told come first, then those of `order`, then by name."""
    names = ordered(groups.values(), [groups[node] for node in told if node in groups], order)
    counts = Counter(groups.values())
    return Groups(tuple((name, counts[name]) for name in names), canary)


def ordered(groups: Iterable[str], begun: Sequence[str], order: Sequence[str]) -> list[str]:
    """Each group once: what has begun is done first, as it began; nodes without the label come last."""
    first = {one: place for place, one in enumerate(dict.fromkeys([*begun, *order]))}
    return sorted(set(groups), key=lambda one: (first.get(one, len(first)), one == NO_GROUP, one))


def wave_size(share: float, nodes: int) -> int:
    """How many nodes a share of a pool is, rounded down, at least one."""
    return max(1, math.floor(share * nodes + 1e-9))


def size_after(spec: RolloutCreate, told: int, nodes: int) -> int:
    """How many of `nodes` shall run the revision after the next wave, of which `told` have been told, were it of one
    group."""
    size = told + wave_size(spec.canary_share, nodes)
    if spec.stages:
        size = next((end for end in _ends(spec, nodes) if end > told), nodes)
    if spec.max_step_share is not None:
        size = min(size, told + wave_size(spec.max_step_share, nodes))
    return min(size, max(nodes, told))


def next_size(spec: RolloutCreate, told: int, groups: Groups) -> int:
    """The same where a wave ends with its group, and the canary with those that may be it."""
    size = size_after(spec, told, groups.nodes)
    if not told and groups.canary is not None:
        size = min(size, groups.canary)
    return min([size, *groups.ends[bisect_right(groups.ends, told) :][:1]])


def sizes(spec: RolloutCreate, groups: Groups) -> list[int]:
    """The same after every wave, the canary first; an emergency has one."""
    found = [groups.nodes] if spec.emergency else [next_size(spec, 0, groups)]
    while found[-1] < groups.nodes:
        found.append(next_size(spec, found[-1], groups))
    return found


def pauses_after(spec: RolloutCreate, told: int, nodes: int) -> bool:
    """Whether these nodes end a stage after which a person shall look."""
    ends = zip(spec.stages, _ends(spec, nodes), strict=True)
    return any(stage.pause and end == told for stage, end in ends)


def ends_group(told: int, groups: Groups) -> bool:
    """Whether so many nodes end a group, and another is to follow."""
    return told in groups.ends[:-1]


def soak_after(spec: RolloutCreate, *, between: bool) -> float:
    """Seconds for which a wave is watched on. between: it ends a group, and another follows."""
    return max(spec.soak_s, spec.wave_soak_s) if between else spec.soak_s


def _ends(spec: RolloutCreate, nodes: int) -> list[int]:
    ends: list[int] = []
    for stage in spec.stages:
        before = ends[-1] if ends else 0
        ends.append(min(max(wave_size(stage.share, nodes), before + 1), nodes))
    return ends
