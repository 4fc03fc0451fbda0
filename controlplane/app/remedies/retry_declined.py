"""Declined remedies of alerts that still fire are chosen again.

What forbade them (another rollout, a judge, a cooldown) ends without the alert changing.
"""

import logging
from datetime import datetime

from sqlmodel import Session, col, select

from controlplane.alerts.lives.remedy_steps import add_steps
from controlplane.alerts.tables import AlertRow, AlertRuleRow
from controlplane.alerts.view import alert_view, rule_view
from controlplane.app.remedies.hook import Remedies
from controlplane.contract.bodies.alerts import OURS, Alert, AlertState
from controlplane.contract.bodies.remedies import RemedyState
from controlplane.db.database import Database

log = logging.getLogger(__name__)


def try_again(database: Database, remedies: Remedies, now: datetime) -> None:
    """One transaction for each such alert. One that fails is logged and does not stop the others."""
    with database.read_session() as session:
        firing = (
            select(AlertRow)
            .where(AlertRow.source == OURS, AlertRow.state == AlertState.FIRING.value)
            .order_by(col(AlertRow.id))
        )
        waiting = [row.id for row in session.exec(firing) if row.remedies and is_waiting(alert_view(row))]
    for alert_id in waiting:
        try:
            with database.session() as session:
                _again(session, remedies, alert_id, now)
        except Exception:
            log.exception("the remedies of alert %s could not be chosen again; the next tick tries again", alert_id)


def is_waiting(alert: Alert) -> bool:
    """Whether the newest step of any action is a declined one."""
    newest = {step.action: step for step in alert.remedies}
    return any(step.state is RemedyState.DECLINED for step in newest.values())


def _again(session: Session, remedies: Remedies, alert_id: int | None, now: datetime) -> None:
    row = session.get(AlertRow, alert_id, with_for_update=True)
    if row is None or row.state != AlertState.FIRING.value:
        return
    rule = session.get(AlertRuleRow, row.rule_id)
    if rule is None or not rule.enabled:
        return
    add_steps(row, remedies(session, alert_view(row), rule_view(rule), now))
    session.add(row)
