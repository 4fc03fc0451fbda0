"""Configuration revisions beside what runs them and what became of them, and what tells two of them apart. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.contract.bodies.change import class_of, expected_s
from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import FleetColumns, NodeView
from controlplane.contract.bodies.rollouts import Rollout
from controlplane.contract.knobs import Knob
from controlplane.contract.reports.declared_knobs import between, by_some, knob_of


@dataclass(frozen=True)
class Use:
    """A revision in one pool: how many nodes run it, and how many are to. `role`: "serving" or "trial"."""

    pool: str
    role: str
    runs: int
    wanted: int


@dataclass(frozen=True)
class ConfigRow:
    """`changed`: what tells it from the revision before it, as (was, is) by knob. `served`: a rollout has replaced it,
    as it does what a pool adopted from its first node."""

    revision: Revision
    uses: list[Use]
    rollouts: list[Rollout]
    changed: Mapping[str, tuple[Any, Any]]
    served: bool = False


@dataclass(frozen=True)
class Change:
    """One knob of two revisions. `ways`: what changing it takes, by node looked at."""

    knob: Knob
    old: Any
    new: Any
    ways: list["Way"]


@dataclass(frozen=True)
class Way:
    """What one change takes on `node`. `cost_s`: None where none was measured there."""

    pool: str
    node: str
    backend: str
    change_class: str
    cost_s: float | None


def uses_of(told: FleetColumns) -> dict[int, list[Use]]:
    """By revision: where it runs and where it should, pools by name.

    A node that runs what its pool adopted from one was never given its number: it counts as running it.
    """
    runs: Counter[tuple[int, str, str]] = Counter()
    wanted: Counter[tuple[int, str, str]] = Counter()
    for place, (pool, role) in enumerate(zip(told.pool, told.role, strict=True)):
        desired, revision = told.desired_revision[place], told.revision[place]
        if revision == 0 and told.drift_since[place] is None:
            revision = desired
        if revision:
            runs[revision, pool, role.value] += 1
        if desired:
            wanted[desired, pool, role.value] += 1
    found: dict[int, list[Use]] = {}
    for key in sorted({*runs, *wanted}):
        number, pool, role_name = key
        found.setdefault(number, []).append(Use(pool, role_name, runs[key], wanted[key]))
    return found


def config_rows(
    revisions: Sequence[Revision], told: FleetColumns, rollouts: Sequence[Rollout], pool: str | None
) -> list[ConfigRow]:
    """Newest first; of one pool those that it runs, should run, or was given by a rollout or ran before one."""
    uses = uses_of(told)
    by_number = {revision.number: revision for revision in revisions}
    rolled: dict[int, list[Rollout]] = {}
    replaced = set[int | None]()
    for one in rollouts:
        if pool in (None, one.spec.pool):
            rolled.setdefault(one.spec.revision, []).append(one)
            replaced.add(one.previous_revision)
    found = []
    for number in sorted(by_number, reverse=True):
        here = [use for use in uses.get(number, []) if pool in (None, use.pool)]
        if pool is not None and not here and number not in rolled and number not in replaced:
            continue
        before = by_number.get(number - 1)
        knobs = by_number[number].knobs.knobs()
        changed = {} if before is None else between(before.knobs.knobs(), knobs)
        found.append(ConfigRow(by_number[number], here, rolled.get(number, []), changed, number in replaced))
    return found


def used(row: ConfigRow) -> bool:
    """Whether it serves, should, was rolled out or gone back from: most others were tried in a study, or once."""
    return row.served or bool(row.rollouts) or any(use.role == "serving" for use in row.uses)


def changes_of(old: Revision, new: Revision, nodes: Sequence[NodeView]) -> list[Change]:
    """What going from one to the other changes, and what each change takes on these nodes."""
    declared = by_some(node.effective.declared for node in nodes if node.effective is not None)
    return [
        Change(knob_of(name, declared), was, becomes, [_way(name, node) for node in nodes])
        for name, (was, becomes) in between(old.knobs.knobs(), new.knobs.knobs()).items()
    ]


def _way(name: str, node: NodeView) -> Way:
    needed = class_of(name, node.backend, node.effective)
    cost_s = None if node.effective is None else expected_s(node.effective, needed)
    return Way(node.pool, node.node, node.backend, needed.value, cost_s)
