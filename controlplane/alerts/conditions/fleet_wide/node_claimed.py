"""Two agents that claim one node: one that is heard from, and another that wants its name or speaks with its token.

A claim of a node that was not heard from afterwards is none: its agent was replaced, and its machine is gone.
"""

from datetime import datetime, timedelta

from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.conditions.fleet_wide.fleet_scope import concerned
from controlplane.alerts.conditions.kind import Findings, Job, Kind, Scope, Snapshot
from controlplane.contract.bodies.alerts import NodeClaimedCondition
from controlplane.contract.bodies.nodes import NodeView


class NodeClaimed(Kind[NodeClaimedCondition]):
    condition = NodeClaimedCondition
    scope = Scope.FLEET
    dry_run_step_s = None

    def judge(self, job: Job[NodeClaimedCondition], seen: Snapshot, end: datetime) -> Findings:
        nodes = concerned(job, seen, lambda node: is_claimed(node, job.condition.hold_s, end))
        return Findings([_finding(job.condition, node, end) for node in nodes])


def is_claimed(node: NodeView, hold_s: float, now: datetime) -> bool:
    """Whether the newest claim is of the last `hold_s`, and the node was heard from since."""
    if node.claimed_at is None or node.last_seen is None:
        return False
    return node.last_seen >= node.claimed_at and now - node.claimed_at < timedelta(seconds=hold_s)


def _finding(condition: NodeClaimedCondition, node: NodeView, now: datetime) -> Finding:
    labels = {"kind": condition.kind, "pool": node.pool, "node": node.node}
    if not is_claimed(node, condition.hold_s, now) or node.claimed_at is None:
        return Finding(labels, now, Reading.CLEAR)
    return Finding(
        labels,
        now,
        Reading.BREACH,
        since=node.claimed_at,
        summary=f"two agents claim node {node.node}: the one that is heard from, and {node.claimed_by}",
        evidence={
            "claimed_by": node.claimed_by,
            "claimed_at": node.claimed_at.isoformat(),
            "connected": node.connected,
            "error_rate": {"statement": "seen by the service itself: no statistics, no chance involved"},
        },
    )
