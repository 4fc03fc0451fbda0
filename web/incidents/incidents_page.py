"""Incidents: those that are open, with what is to be done next, and those that are over."""

from controlplane.client import Client
from controlplane.contract.on_call.incidents import Incident
from web.frame.page import Context, Page, Part
from web.frame.selection import Selection

MOST_OVER = 100
"""Of those that are over, the newest."""


def incidents(client: Client, selection: Selection) -> Context:
    """Those of the pool and the time, where the address says one. Those that page stand before those that wait."""
    found = [one for one in client.incidents(pool=selection.pool, open=True) if covers(selection, one)]
    found.sort(key=lambda one: (one.severity != "page", one.state != "open", -one.onset_at.timestamp()))
    over = [one for one in client.latest_incidents(MOST_OVER, pool=selection.pool) if one.resolved_at is not None]
    return {"open": found, "over": [one for one in over if covers(selection, one)], "now": selection.now}


def covers(selection: Selection, one: Incident) -> bool:
    return selection.covers(one.onset_at, one.resolved_at)


PAGE = Page("incidents", "/incidents", "Incidents", (Part("incidents", incidents),), key="i", any_time=True)
