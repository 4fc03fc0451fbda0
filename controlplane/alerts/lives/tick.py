"""What one tick of the evaluator works from: read once, in one snapshot of the database."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from sqlmodel import Session, col, select

from controlplane.alerts.conditions.kind import Job, Kind, Scope, Snapshot
from controlplane.alerts.store import OPEN_STATES
from controlplane.alerts.tables import AlertRow, AlertRuleRow, DetectorStateRow, SilenceRow
from controlplane.alerts.view import rule_view, silence_view
from controlplane.alerts.windows.watched_nodes import WatchedNodes
from controlplane.contract.bodies.alerts import AlertRule, Silence


def read(session: Session, watched: WatchedNodes) -> Snapshot:
    rows = session.exec(select(AlertRuleRow).where(col(AlertRuleRow.enabled).is_(True)).order_by(col(AlertRuleRow.id)))
    return Snapshot(
        rules=[(rule_view(row), row.version) for row in rows],
        nodes=watched.read(session),
        states={(row.rule_id, row.pool): row for row in session.exec(select(DetectorStateRow))},
        alerts=list(session.exec(select(AlertRow).where(col(AlertRow.state).in_(OPEN_STATES)))),
    )


def jobs_of(seen: Snapshot, kinds: Mapping[type[BaseModel], Kind[Any]]) -> list[Job[Any]]:
    """Each rule on each pool that it is about; on the whole fleet at once where that is its scope."""
    jobs = []
    for rule, version in seen.rules:
        kind = kinds[type(rule.condition)]
        pools = [rule.pool or ""]
        if kind.scope is Scope.POOL:
            pools = sorted(seen.pools if rule.pool is None else seen.pools & {rule.pool})
        jobs += [_job(kind, rule, version, pool, len(pools), seen) for pool in pools]
    return jobs


def _job(kind: Kind[Any], rule: AlertRule, version: int, pool: str, pools: int, seen: Snapshot) -> Job[Any]:
    row = seen.states.get((rule.id, pool))
    row = row if row is not None and row.version == version else None
    mine = {
        alert.fingerprint: alert
        for alert in seen.alerts
        if alert.rule_id == rule.id and (alert.pool == pool or kind.scope is Scope.FLEET)
    }
    position, state = (None, {}) if row is None else (row.position, row.state)
    return Job(kind, rule, version, pool, pools, position, state, mine)


def silences_now(session: Session) -> list[Silence]:
    return [
        silence_view(row) for row in session.exec(select(SilenceRow).where(col(SilenceRow.ended_early_at).is_(None)))
    ]
