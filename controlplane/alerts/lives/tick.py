"""What one tick of the evaluator works from: read once, in one snapshot of the database."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from sqlmodel import Session, col, select

from controlplane.alerts.conditions.config_failure import LOOK_BACK_S, ConfigHistory, history_of
from controlplane.alerts.conditions.deliberate import DOMAIN, changes_of
from controlplane.alerts.store import OPEN_STATES
from controlplane.alerts.tables import AlertRow, AlertRuleRow, DetectorStateRow, SilenceRow
from controlplane.alerts.view import rule_view, silence_view
from controlplane.alerts.windows.pool_record import NOTHING_KNOWN, PoolRecord, Span
from controlplane.alerts.windows.watched_nodes import WatchedNodes
from controlplane.contract.bodies.alerts import (
    AlertRule,
    ConfigFailedCondition,
    DriftCondition,
    RegressionCondition,
    Silence,
    TelemetryLostCondition,
)
from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.metrics import NODE, POOL, WINDOW_S
from controlplane.fleet.opamp.session import CONFIG_APPLIED, CONFIG_FAILED
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
    records: dict[str, PoolRecord] = field(default_factory=dict)
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

    def record(self, pool: str) -> PoolRecord:
        """What alerts and rollouts say of the pool's past."""
        return self.records.get(pool, NOTHING_KNOWN)

    def judged_nodes(self, pool: str) -> list[str] | None:
        """The nodes whose windows regressions are judged by while a rollout judges others; None: all that there are.

        A canary is compared with the rest by those who gave it its configuration, and taken back when it is worse: it
        neither raises an alarm of its own nor teaches what is normal. Where it is the whole pool it is watched as ever.
        """
        trial = self.record(pool).on_trial
        nodes = [node.node for node in self.by_pool.get(pool, []) if node.role is NodeRole.SERVING]
        kept = [node for node in nodes if node not in trial]
        return kept if kept and len(kept) < len(nodes) else None


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
    return Snapshot(
        rules=rules,
        nodes=watched.read(session),
        states={(row.rule_id, row.pool): row for row in session.exec(select(DetectorStateRow))},
        alerts=list(session.exec(select(AlertRow).where(col(AlertRow.state).in_(OPEN_STATES)))),
        records=_records(session, [rule for rule, _ in rules], now),
        configs=_configs(session, [rule for rule, _ in rules], now),
    )


def _records(session: Session, rules: Sequence[AlertRule], now: datetime) -> dict[str, PoolRecord]:
    """What the past says of baselines, as far back as a rule may look."""
    conditions = [rule.condition for rule in rules if isinstance(rule.condition, RegressionCondition)]
    if not conditions:
        return {}
    since = now - timedelta(seconds=2 * max(condition.baseline_s for condition in conditions))
    metrics = sorted({metric for condition in conditions for metric in condition.metrics})
    past = select(AlertRow).where(
        AlertRow.kind == RegressionCondition.model_fields["kind"].default,
        col(AlertRow.resolved_at).is_(None) | (col(AlertRow.resolved_at) > since),
    )
    alerts: dict[str, dict[str, list[Span]]] = {}
    for row in session.exec(past):
        until_s = math.inf if row.resolved_at is None else row.resolved_at.timestamp()
        span = (row.started_at.timestamp() - WINDOW_S, until_s)
        alerts.setdefault(row.pool, {}).setdefault(row.labels.get("metric", ""), []).append(span)
    told = select(LedgerRow).where(col(LedgerRow.kind).startswith(f"{DOMAIN}."), col(LedgerRow.time) >= since)
    entries = [
        LedgerEntry.model_validate(row, from_attributes=True) for row in session.exec(told.order_by(col(LedgerRow.id)))
    ]
    changes = changes_of(entries, metrics)
    return {
        pool: PoolRecord(
            alerts.get(pool, {}),
            *((tuple(one.taken_back), one.moves, one.on_trial) if (one := changes.get(pool)) else ()),
        )
        for pool in {*alerts, *changes}
    }


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
