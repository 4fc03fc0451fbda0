"""Alerts: the list, and one alert with its diagnosis, remedies and deliveries."""

from controlplane.client import Client
from controlplane.contract.bodies.rollouts import RolloutPhase
from web.access.viewer import may_operate
from web.frame.page import Context, Page, Part, number
from web.frame.selection import Selection


def alerts(client: Client, selection: Selection) -> Context:
    """Those of the pool and the time, where the address says one."""
    pool = selection.pool
    found = [
        alert
        for alert in client.alerts()
        if pool in (None, alert.labels.get("pool")) and selection.covers(alert.started_at, alert.resolved_at)
    ]
    return {"alerts": found}


def alert(client: Client, selection: Selection) -> Context:
    found = client.alert(number(selection, "alert"))
    named = {step.rollout_id for step in found.remedies if step.rollout_id is not None}
    return {
        "alert": found,
        "deliveries": client.deliveries(found.id),
        "proposed": {made for made in named if client.rollout(made).phase is RolloutPhase.PROPOSED},
        "may_operate": may_operate(client),
    }


def whole(client: Client, selection: Selection) -> Context:
    """Raises `NotFound` for an alert that there is not."""
    return {"number": client.alert(number(selection, "alert")).id}


LIST = Page("alerts", "/alerts", "Alerts", (Part("alerts", alerts),), key="a", any_time=True)
PAGE = Page("alert", "/alerts/{alert}", "Alert", (Part("alert", alert),), section="alerts", bar=False, whole=whole)
