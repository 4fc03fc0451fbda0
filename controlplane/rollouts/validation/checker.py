"""The check of a rollout against its pool's nodes: as its proposal and its start are refused, and as its evidence keeps
what was found while it was validated."""

from collections.abc import Sequence
from typing import Any

from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.changes.findings import Finding
from controlplane.contract.errors import Conflict
from controlplane.rollouts.validation.node_findings import findings

MOST_TOLD = 20
"""Findings that an error holds: a thousand nodes may refuse for one reason."""
MOST_KEPT = 200
"""Findings that the evidence holds."""


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


def kept(found: Sequence[Finding]) -> dict[str, Any]:
    """For a rollout's evidence: by node all that was found (`validated`), in sentences what refuses (`findings`)."""
    by_node: dict[str, list[dict[str, Any]]] = {}
    for one in found[:MOST_KEPT]:
        by_node.setdefault(one.node, []).append(one.model_dump(mode="json", exclude={"node"}))
    refusing = [one.sentence for one in found[:MOST_KEPT] if one.refuses]
    return {"validated": by_node} | ({"findings": refusing} if refusing else {})
