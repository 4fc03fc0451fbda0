"""Nodes that do not run what they should, by what the engine's configuration is when it is read back."""

from datetime import datetime

from controlplane.alerts.conditions.finding import Finding, Patience, Reading
from controlplane.alerts.conditions.fleet_wide.fleet_scope import concerned
from controlplane.alerts.conditions.kind import Findings, Job, Kind, Scope, Snapshot
from controlplane.contract.bodies.alerts import DriftCondition
from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import EffectiveConfig, NodeView
from controlplane.contract.errors import NotFound
from controlplane.contract.knobs import difference
from controlplane.contract.reports.declared_knobs import started_as
from controlplane.fleet import store as fleet


class Drift(Kind[DriftCondition]):
    condition = DriftCondition
    scope = Scope.FLEET
    dry_run_step_s = None

    def judge(self, job: Job[DriftCondition], seen: Snapshot, end: datetime) -> Findings:
        nodes = concerned(job, seen, lambda node: node.drift)
        return Findings([self._finding(job.condition, node, end) for node in nodes])

    def _finding(self, condition: DriftCondition, node: NodeView, now: datetime) -> Finding:
        labels = {"kind": condition.kind, "pool": node.pool, "node": node.node}
        if not node.drift:
            return Finding(labels, now, Reading.CLEAR)
        wanted = None if node.desired_revision is None else self._revision(node.desired_revision)
        runs = EffectiveConfig(revision=0, knobs={}) if node.effective is None else node.effective
        differing = {} if wanted is None else difference(started_as(runs.declared, wanted.knobs.knobs()), runs.knobs)
        words = ", ".join(f"{name} is {pair[1]}, wanted {pair[0]}" for name, pair in differing.items()) or "unknown"
        error = f"; the node says: {node.config_error}" if node.config_error else ""
        return Finding(
            labels,
            now,
            Reading.BREACH,
            Patience(condition.for_s),
            since=node.drift_since,
            summary=f"node {node.node} does not run what it should ({words}){error}",
            evidence={
                "desired_revision": node.desired_revision,
                "effective_revision": None if node.effective is None else node.effective.revision,
                "differing": differing,
                "config_status": node.config_status.value,
                "connected": node.connected,
                "error_rate": {"statement": "read back from the engine: no statistics, no chance involved"},
            },
        )

    def _revision(self, number: int) -> Revision | None:
        with self._sources.database.read_session() as session:
            try:
                return fleet.revision(session, number)
            except NotFound:
                return None
