"""Alerts: the list, and one alert with its diagnosis, remedies and deliveries."""

from dataclasses import replace
from datetime import timedelta

from controlplane.client import Client
from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.bodies.rollouts import RolloutPhase
from controlplane.contract.metrics import E2E
from web.access.viewer import may_operate
from web.frame.page import Context, Page, Part, number
from web.frame.selection import FILTERS, Selection
from web.frame.time_range import NOW, TimeRange
from web.pages.chart_parts import BEHIND

AFTER = timedelta(minutes=1)
"""Requests that an alert was seen by may have ended so long before it began."""


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
        "incident": next(iter(client.incidents(alert_id=found.id)), None),
        "deliveries": client.deliveries(found.id),
        "names": {one.id: one.name for one in client.destinations()},
        "proposed": {made for made in named if client.rollout(made).phase is RolloutPhase.PROPOSED},
        "may_operate": may_operate(client),
        "behind": behind(found, selection),
    }


def behind(alert: Alert, selection: Selection) -> str:
    """The page of the slowest requests since it began, of the place that is named; empty where no request tells."""
    moved = None if alert.diagnosis is None else alert.diagnosis.attribution
    if moved is None:
        return ""
    filters = {label: value for label, value in alert.labels.items() if label in FILTERS}
    if moved.place is not None and moved.place.label in FILTERS:
        filters[moved.place.label] = moved.place.value
    end = NOW if alert.resolved_at is None else f"{alert.resolved_at + AFTER:%Y-%m-%dT%H:%M:%SZ}"
    told = TimeRange(f"{alert.started_at - AFTER:%Y-%m-%dT%H:%M:%SZ}", end)
    of = replace(selection, range=told, range_said=True, filters=filters, compare=None, own={})
    return "/requests" + of.query(metric=BEHIND.get(moved.metric, E2E.short), order="slowest")


def whole(client: Client, selection: Selection) -> Context:
    """Raises `NotFound` for an alert that there is not."""
    return {"number": client.alert(number(selection, "alert")).id}


LIST = Page("alerts", "/alerts", "Alerts", (Part("alerts", alerts),), key="a", any_time=True)
PAGE = Page("alert", "/alerts/{alert}", "Alert", (Part("alert", alert),), section="alerts", bar=False, whole=whole)
