"""The ledger: everything that was done, and by whom."""

from controlplane.client import Client
from web.frame.page import Context, Page, Part
from web.frame.selection import Selection

NEWEST = 200


def ledger(client: Client, selection: Selection) -> Context:
    return {"entries": client.ledger(limit=NEWEST, kind=selection.own.get("kind"))}


PAGE = Page("ledger", "/ledger", "Ledger", (Part("ledger", ledger),), key="l", bar=False)
