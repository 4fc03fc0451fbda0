"""What one tick of the evaluator works from: read once, in one snapshot of the database."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from sqlmodel import Session, col, select

from controlplane.alerts.config_failure import LOOK_BACK_S, ConfigHistory, history_of
from controlplane.alerts.detector import Span
from controlplane.alerts.store import OPEN_STATES
from controlplane.alerts.tables import AlertRow, AlertRuleRow, DetectorStateRow, SilenceRow
from controlplane.alerts.view import rule_view, silence_view
from controlplane.alerts.watched_nodes import WatchedNodes
from controlplane.contract.alerts import (
    AlertRule,
    ConfigFailedCondition,
    DriftCondition,
    RegressionCondition,
    Silence,
    TelemetryLostCondition,
)
from controlplane.contract.ledger import LedgerEntry
from controlplane.contract.metrics import NODE, POOL, WINDOW_S
from controlplane.contract.nodes import NodeRole, NodeView
from controlplane.fleet.opamp_session import CONFIG_APPLIED, CONFIG_FAILED
from controlplane.ledger.tables import LedgerRow

OF_THE_FLEET = (DriftCondition, ConfigFailedCondition, TelemetryLostCondition)
"""Conditions that are judged by what is known now, node by node, for all pools of the rule at once."""


@dataclass(frozen=True)
class Job:
    """One rule on one pool, as read at the start of a tick."""

    rule: AlertRule
    version: int
    pool: str
    position: datetime | None
    state: dict[str, Any]
    open_alerts: dict[str, AlertRow]


@dataclass
class Snapshot:
    """What one tick works from."""

    rules: list[tuple[AlertRule, int]]
    nodes: list[NodeView]
    states: dict[tuple[int, str], DetectorStateRow]
    alerts: list[AlertRow]
    spans: dict[str, list[Span]]
    configs: ConfigHistory = field(default_factory=ConfigHistory)
    pools: set[str] = field(default_factory=set)

    @cached_property
    def by_pool(self) -> dict[str, list[NodeView]]:
        found: dict[str, list[NodeView]] = {}
        for node in self.nodes:
            found.setdefault(node.pool, []).append(node)
        return found

    def where(self, pool: str) -> dict[str, str | list[str]]:
        """The filter for a pool's serving traffic: trial nodes that share its name are left out."""
        here = self.by_pool.get(pool, [])
        where: dict[str, str | list[str]] = {POOL.label: pool}
        if any(node.role is NodeRole.TRIAL for node in here):
            where[NODE.label] = [node.node for node in here if node.role is NodeRole.SERVING]
        return where


def serving(job: Job, seen: Snapshot) -> list[NodeView]:
    """The serving nodes that the job's rule is about."""
    return [node for node in seen.nodes if node.role is NodeRole.SERVING and job.rule.pool in (None, node.pool)]


def job_of(rule: AlertRule, version: int, pool: str, seen: Snapshot) -> Job:
    row = seen.states.get((rule.id, pool))
    row = row if row is not None and row.version == version else None
    mine = {
        alert.fingerprint: alert
        for alert in seen.alerts
        if alert.rule_id == rule.id and (alert.pool == pool or isinstance(rule.condition, OF_THE_FLEET))
    }
    return Job(rule, version, pool, None if row is None else row.position, {} if row is None else row.state, mine)


def silences_now(session: Session) -> list[Silence]:
    return [
        silence_view(row) for row in session.exec(select(SilenceRow).where(col(SilenceRow.ended_early_at).is_(None)))
    ]


def read(session: Session, now: datetime, watched: WatchedNodes) -> Snapshot:
    rows = session.exec(select(AlertRuleRow).where(col(AlertRuleRow.enabled).is_(True)).order_by(col(AlertRuleRow.id)))
    rules = [(rule_view(row), row.version) for row in rows]
    longest_s = max(
        (rule.condition.baseline_s for rule, _ in rules if isinstance(rule.condition, RegressionCondition)), default=0.0
    )
    spans: dict[str, list[Span]] = {}
    past = select(AlertRow).where(
        AlertRow.kind == RegressionCondition.model_fields["kind"].default,
        col(AlertRow.resolved_at).is_(None) | (col(AlertRow.resolved_at) > now - timedelta(seconds=2 * longest_s)),
    )
    for row in session.exec(past):
        until_s = math.inf if row.resolved_at is None else row.resolved_at.timestamp()
        spans.setdefault(row.pool, []).append((row.started_at.timestamp() - WINDOW_S, until_s))
    return Snapshot(
        rules=rules,
        nodes=watched.read(session),
        states={(row.rule_id, row.pool): row for row in session.exec(select(DetectorStateRow))},
        alerts=list(session.exec(select(AlertRow).where(col(AlertRow.state).in_(OPEN_STATES)))),
        spans=spans,
        configs=_configs(session, [rule for rule, _ in rules], now),
    )


def _configs(session: Session, rules: Sequence[AlertRule], now: datetime) -> ConfigHistory:
    """What the ledger says of configurations, as far back as a rule may want it."""
    hold_s = [rule.condition.hold_s for rule in rules if isinstance(rule.condition, ConfigFailedCondition)]
    if not hold_s:
        return ConfigHistory()
    since = now - timedelta(seconds=max(hold_s) + LOOK_BACK_S)

    def entries(kind: str) -> list[LedgerEntry]:
        query = (
            select(LedgerRow).where(LedgerRow.kind == kind, col(LedgerRow.time) >= since).order_by(col(LedgerRow.id))
        )
        return [LedgerEntry.model_validate(row, from_attributes=True) for row in session.exec(query)]

    return history_of(entries(CONFIG_FAILED), entries(CONFIG_APPLIED))
