"""What a pool's file asks for beside what is there: decided from both, and told in words. Pure."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, Field

from controlplane.command.pools.pool_files import PoolFile
from controlplane.command.pools.production import production_revision, serving
from controlplane.command.pools.rehearsal import REASON
from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.rollouts import ENDED, Rollout, RolloutPhase
from controlplane.contract.changes.hooks import Hook
from controlplane.contract.errors import BadSettings, Conflict
from controlplane.contract.knobs import config_hash, difference
from controlplane.contract.on_call.declared_alerting import DeclaredKind, DeclaredStep, FieldChange
from controlplane.contract.on_call.rollout_policies import RolloutPolicyCreate
from controlplane.contract.reports.declared_knobs import by_some, parse_declared


class PoolChanges(BaseModel):
    """What a file changes of its pool."""

    pool: str = Field(description="the pool")
    file: str = Field(description="the file that declares it")
    revision: int = Field(description="the revision that the pool runs before")
    knobs: list[FieldChange] = Field(description="knobs that differ, which a rollout brings")
    policy: list[FieldChange] = Field(description="fields of the pool's policy that differ")
    rollout: int | None = Field(default=None, description="the rollout that brings, or is to bring, the configuration")
    held: str = Field(default="", description="why no rollout is begun although knobs differ; empty: one is")
    says: list[str] = Field(default=[], description="what the rollout would do, and what to know of the nodes")
    drifted: list[str] = Field(default=[], description="nodes that run otherwise than the pool's revision")
    hooks_left: list[str] = Field(
        default=[], description="hooks of the pool that these files neither name nor made: they are left as they are"
    )

    @property
    def changed(self) -> bool:
        """Whether `apply` has something to do."""
        return bool(self.policy) or (bool(self.knobs) and not self.held)


@dataclass(frozen=True)
class PoolSeen:
    """What there is of the pool. revisions and rollouts: of the whole service, newest first."""

    nodes: Sequence[NodeView]
    revisions: Sequence[Revision]
    rollouts: Sequence[Rollout]
    policy: RolloutPolicyCreate | None


def plan_pool(wanted: PoolFile, seen: PoolSeen, *, again: bool) -> PoolChanges:
    """Raises `BadRequest` for knobs that there are not, `BadSettings` and `Conflict` where nothing can be compared.

    again: propose once more what was rolled back.
    """
    number = production_revision(seen.nodes, wanted.pool)
    promoted = next((one for one in seen.revisions if one.number == number), None)
    if promoted is None:
        raise BadSettings(f"name: pool {wanted.pool!r} has no serving node whose configuration is known", field="name")
    declared = by_some(node.effective.declared for node in seen.nodes if node.effective and node.pool == wanted.pool)
    config = parse_declared(wanted.config, declared, base=promoted.knobs, prefix="config.")
    differing = difference(config.knobs(), promoted.knobs.knobs(), unreported=True)
    changes = PoolChanges(
        pool=wanted.pool,
        file=str(wanted.file),
        revision=promoted.number,
        knobs=[FieldChange(field=name, old=runs, new=asked) for name, (asked, runs) in differing.items()],
        policy=list(_policy_changes(wanted, seen.policy)),
        drifted=[node.node for node in serving(seen.nodes, wanted.pool) if node.drift],
    )
    if differing:
        same = next((one.number for one in seen.revisions if one.hash == config_hash(config)), None)
        mine = [one for one in seen.rollouts if one.spec.pool == wanted.pool]
        changes.rollout, changes.held = _held(mine, same, promoted.number, again=again)
    return changes


def hooks_left(hooks: Iterable[Hook], pool: str, steps: Iterable[DeclaredStep]) -> list[str]:
    """The pool's hooks that no step is about, by name: people's, and those of other files."""
    told = {step.id for step in steps if step.kind is DeclaredKind.HOOK}
    return sorted(one.name for one in hooks if one.pool == pool and one.id not in told)


def _held(mine: Sequence[Rollout], same: int | None, promoted: int, *, again: bool) -> tuple[int | None, str]:
    """Whether a rollout of the configuration is there already: its number, and why none is begun."""
    for one in mine:
        if one.phase not in ENDED:
            if one.spec.revision == same:
                return one.id, f"rollout {one.id} brings it: {one.phase}, {one.message}"
            if one.phase not in (RolloutPhase.PROPOSED, RolloutPhase.AWAITING_APPROVAL):
                raise Conflict(f"name: rollout {one.id} is under way ({one.phase}): apply again when it has ended")
        elif one.spec.revision == promoted and one.phase is RolloutPhase.PROMOTED:
            break  # What was before is of another time.
        elif one.spec.revision == same and one.spec.reason != REASON and not again:
            why = f"rollout {one.id} of it ended {one.phase}: {one.message}; --again proposes it once more"
            return one.id, why
    return None, ""


def _policy_changes(wanted: PoolFile, known: RolloutPolicyCreate | None) -> Iterator[FieldChange]:
    if wanted.policy is None:
        return
    before = (known or RolloutPolicyCreate(pool=wanted.pool)).model_dump(mode="json")
    after = RolloutPolicyCreate.model_validate({"pool": wanted.pool, **wanted.policy}).model_dump(mode="json")
    for name in wanted.policy:
        if before.get(name) != after[name]:
            yield FieldChange(field=f"policy.{name}", old=before.get(name), new=after[name])


def proposal(wanted: PoolFile, changes: PoolChanges, commit: str) -> dict[str, Any]:
    """The rollout to ask for: of `POST /api/v1/rollouts`."""
    origin = f"{wanted.file.name} at {commit}" if commit else wanted.file.name
    because = wanted.rollout.get("reason")
    return {
        **wanted.rollout,
        "pool": wanted.pool,
        "revision": changes.revision,
        "knobs": {change.field: change.new for change in changes.knobs},
        "reason": f"{because} ({origin})" if because else origin,
    }


def policy_body(wanted: PoolFile, known: RolloutPolicyCreate | None) -> dict[str, Any]:
    """The policy with the file's fields: of `PUT /api/v1/rollout-policies`."""
    before: Mapping[str, Any] = (
        {} if known is None else known.model_dump(mode="json", include=set(RolloutPolicyCreate.model_fields))
    )
    return {**before, **(wanted.policy or {}), "pool": wanted.pool}


def pool_lines(found: PoolChanges, *, done: bool) -> Iterator[str]:
    """A line a field that differs, then what a rollout does or why there is none."""
    yield f"pool {json.dumps(found.pool, ensure_ascii=False)}  ({found.file}), revision {found.revision}"
    yield from (f"  ~ {_change(change)}" for change in (*found.knobs, *found.policy))
    if found.held:
        yield f"  no rollout: {found.held}"
    elif found.knobs and done:
        yield f"  rollout {found.rollout} brings the configuration"
    elif found.knobs:
        yield "  a rollout would bring the configuration:"
    yield from (f"    {line}" for line in found.says)
    if found.drifted:
        yield f"  drift: {', '.join(found.drifted)} run otherwise than revision {found.revision}"
    for name in found.hooks_left:
        yield f"  hook {json.dumps(name, ensure_ascii=False)} is left: no file of these made it"
    if not found.knobs and not found.policy:
        yield "  configuration and policy as declared"


def _change(change: FieldChange) -> str:
    return f"{change.field}: {json.dumps(change.old)} -> {json.dumps(change.new)}"
