"""Declined remedies of alerts that still fire are chosen again.

What forbade them (another rollout, a judge, a cooldown) ends without the alert changing. Whether it has is only read:
what burns for long is not written again with each tick.
"""

import logging
from datetime import datetime

from sqlmodel import Session, col, select

from controlplane.alerts.lives.remedy_steps import add_steps
from controlplane.alerts.tables import AlertRow, AlertRuleRow
from controlplane.alerts.view import alert_view, rule_view
from controlplane.app.remedies.hook import Remedies
from controlplane.app.remedies.standing import Standings
from controlplane.contract.bodies.alerts import OURS, Alert, AlertState
from controlplane.contract.bodies.remedies import RemedyState
from controlplane.db.database import Database

log = logging.getLogger(__name__)

FAILED = "the remedies of alert %s could not be chosen again; the next tick tries again"


def try_again(database: Database, remedies: Remedies, now: datetime) -> None:
    """One transaction for each alert that another choice is made for. One that fails is logged and does not stop the
    others."""
    with database.read_session() as session:
        chosen_anew = _chosen_anew(session, remedies, now)
    for alert_id in chosen_anew:
        try:
            with database.session() as session:
                _again(session, remedies, alert_id, now)
        except Exception:
            log.exception(FAILED, alert_id)


def _chosen_anew(session: Session, remedies: Remedies, now: datetime) -> list[int]:
    """Ids of the firing alerts with a declined remedy for which there is something else to be done by now."""
    firing = (
        select(AlertRow, AlertRuleRow)
        .join(AlertRuleRow, col(AlertRuleRow.id) == col(AlertRow.rule_id))
        .where(AlertRow.source == OURS, AlertRow.state == AlertState.FIRING.value, col(AlertRuleRow.enabled).is_(True))
        .order_by(col(AlertRow.id))
    )
    seen = Standings(session, now)
    found: list[int] = []
    for row, rule in session.exec(firing):
        if row.id is None or not row.remedies:
            continue
        try:
            alert = alert_view(row)
            if is_waiting(alert) and remedies.has_new(seen, alert, rule_view(rule), now):
                found.append(row.id)
        except Exception:
            log.exception(FAILED, row.id)
    return found


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
