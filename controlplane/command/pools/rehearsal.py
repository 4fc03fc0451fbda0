"""A rollback proved before it is needed: a canary is given a configuration, and taken back at once.

Guarantee: a rehearsal is never promoted. Its first stage ends in a pause that only a person resumes, so that it stays a
canary also when whoever rehearses is gone; what it did stands in the ledger as any rollout's.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel, Field

from controlplane.client import Client
from controlplane.command.pools.production import production_revision, serving
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.rollouts import ENDED, Rollout, RolloutAction, RolloutPhase, Stage
from controlplane.contract.errors import BadRequest
from controlplane.contract.knobs import difference

REASON = "rehearsal of the rollback"
STAGES = (Stage(share=0, pause=True), Stage(share=1))
NOT_THERE = frozenset({RolloutPhase.VALIDATING, RolloutPhase.CANARY})
"""Until the canary has confirmed."""


class Rehearsal(BaseModel):
    """What came of it. Seconds are the command's own, to a second or so."""

    rollout: int = Field(description="the rollout by which it was done")
    message: str = Field(description="what it says of its end")
    nodes: list[str] = Field(description="the canary")
    there_s: float | None = Field(description="seconds until it ran the configuration; null: it never did")
    back_s: float | None = Field(
        description="seconds from the abort until it said that it ran the old one; null: never"
    )
    differs: list[str] = Field(description="what a node runs otherwise than before, read back from it; none is right")

    @property
    def proved(self) -> bool:
        return self.there_s is not None and self.back_s is not None and not self.differs


def rehearse(client: Client, pool: str, knobs: dict[str, Any], limit_s: float) -> Rehearsal:
    """limit_s: for each way. Raises `BadRequest` for a pool of no known revision, or what the service refuses."""
    nodes = client.nodes()
    before, revision = {node.node: node for node in serving(nodes, pool)}, production_revision(nodes, pool)
    if revision is None:
        raise BadRequest(f"pool: {pool!r} has no serving node whose revision is known", field="pool")
    stages = [stage.model_dump() for stage in STAGES]
    wanted = {"pool": pool, "revision": revision, "knobs": knobs, "stages": stages, "reason": REASON}
    rollout, began = client.create_rollout(wanted), time.monotonic()
    rollout = _watched(client, rollout.id, lambda one: one.phase not in NOT_THERE, limit_s)
    is_there, there_s = rollout.phase not in {*NOT_THERE, *ENDED}, time.monotonic() - began
    canary = [node.node for node in serving(client.nodes(), pool) if node.desired_revision == rollout.spec.revision]
    if rollout.phase not in ENDED:
        client.change_rollout(rollout.id, RolloutAction.ABORT)
    aborted = time.monotonic()
    rollout = _watched(client, rollout.id, lambda one: one.phase in ENDED, limit_s)
    back_s = time.monotonic() - aborted if rollout.phase is RolloutPhase.ROLLED_BACK else None
    after = {node.node: node for node in serving(client.nodes(), pool)}
    return Rehearsal(
        rollout=rollout.id,
        message=rollout.message,
        nodes=canary,
        there_s=round(there_s, 1) if is_there else None,
        back_s=None if back_s is None or not is_there else round(back_s, 1),
        differs=[said for name in canary for said in _differs(name, before.get(name), after.get(name))],
    )


def _watched(client: Client, number: int, is_so: Callable[[Rollout], bool], limit_s: float) -> Rollout:
    """The rollout once it is so, or when the time is over."""
    until = time.monotonic() + limit_s
    rollout = client.rollout(number)
    while not is_so(rollout) and time.monotonic() < until:
        time.sleep(0.2)
        rollout = client.rollout(number)
    return rollout


def _differs(name: str, before: NodeView | None, after: NodeView | None) -> Iterator[str]:
    """Knob by knob, as the node reads them back from its engine."""
    if before is None or before.effective is None or after is None or after.effective is None:
        yield f"{name}: what it runs was not read back"
        return
    found = difference(before.effective.knobs, after.effective.knobs, unreported=True)
    yield from (f"{name}: {knob} is {now}, and was {was}" for knob, (was, now) in found.items())


def rehearsal_lines(found: Rehearsal) -> Iterator[str]:
    where = ", ".join(found.nodes) or "no node"
    if found.there_s is None:
        yield f"not proved: rollout {found.rollout} did not bring it to {where}: {found.message}"
    elif found.back_s is None:
        yield f"not proved: {where} ran it after {found.there_s:.1f} s; rollout {found.rollout}: {found.message}"
    else:
        yield f"{where} ran it after {found.there_s:.1f} s, and what it ran before {found.back_s:.1f} s after the abort"
    yield from (f"not as before: {line}" for line in found.differs)
    if found.proved:
        yield f"proved by rollout {found.rollout}: every knob is as it was, read back from the engine"
