"""Runbooks: what a symptom of the catalogue means, when it fires, what to look at and what to do first."""

from controlplane.client import Client
from controlplane.contract.errors import NotFound
from web.frame.page import Context, Page
from web.frame.selection import Selection


def whole(client: Client, selection: Selection) -> Context:
    """Raises `NotFound` for a symptom that the catalogue does not have."""
    name = selection.own.get("symptom", "")
    found = next((one for one in client.symptoms() if one.id == name), None)
    if found is None:
        raise NotFound(f"no symptom {name[:40]!r}", field="symptom")
    return {"symptom": found}


PAGE = Page("runbook", "/runbooks/{symptom}", "Runbook", section="alerts", bar=False, whole=whole)
