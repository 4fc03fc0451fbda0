"""The check of a rollout against its pool's nodes, as the proposal and the controller ask for it."""

from collections.abc import Callable, Sequence

from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.changes.findings import Finding
from controlplane.contract.errors import Conflict
from controlplane.rollouts.validation.node_findings import findings

MOST_TOLD = 20
"""Findings that an error holds: a thousand nodes may refuse for one reason."""


def checker_of(revision_of: Callable[[int], Revision]) -> Callable[[RolloutCreate, Sequence[NodeView]], list[str]]:
    """What speaks against a rollout on nodes, a sentence each; none: it may begin. revision_of: by its number."""

    def check(spec: RolloutCreate, nodes: Sequence[NodeView]) -> list[str]:
        found = findings(revision_of(spec.revision).knobs.knobs(), nodes)
        return [one.sentence for one in found if one.refuses]

    return check


def refuse_unfit(spec: RolloutCreate, revision: Revision, nodes: Sequence[NodeView]) -> None:
    """Raises `Conflict` with the findings where a node cannot be given the revision. An emergency is a person's to
    decide: its nodes refuse by themselves."""
    if spec.emergency:
        return
    found = findings(revision.knobs.knobs(), nodes)
    refusing = [one for one in found if one.refuses]
    if refusing:
        raise Conflict(said(spec, refusing), field="revision", findings=[one.model_dump() for one in found[:MOST_TOLD]])


def said(spec: RolloutCreate, refusing: Sequence[Finding]) -> str:
    """Why it cannot begin."""
    more = f"; and {len(refusing) - 1} more" if len(refusing) > 1 else ""
    return f"revision: {spec.revision} cannot run in pool {spec.pool!r}: {refusing[0].sentence}{more}"
