"""People: open sessions; for an admin also who was seen, and tokens that are no node's and have not ended."""

from controlplane.client import Client
from controlplane.contract.clock import utc_now
from web.frame.page import Context, Page, Part
from web.frame.selection import Selection


def people(client: Client, selection: Selection) -> Context:
    mine, now = client.own_session(), utc_now()
    is_admin = mine.scope == "admin"
    tokens = [token for token in client.tokens() if token.node is None and not token.revoked_at] if is_admin else []
    return {
        "mine": mine,
        "sessions": client.sessions(),
        "people": client.people() if is_admin else None,
        "tokens": [token for token in tokens if token.expires_at is None or token.expires_at > now],
    }


PAGE = Page("people", "/people", "People", (Part("people", people),), key="p", bar=False)
