"""The ledger: everything that was done, by whom and on what evidence; found by who, what, when and a text."""

from typing import Any

from controlplane.client import Client
from controlplane.contract.errors import BadRequest
from web.frame.page import Context, Page, Part
from web.frame.selection import FILTERS, Selection, is_number
from web.ledger.entry_rows import address, rows_of

KINDS = {
    "rollout": "rollouts",
    "alert": "alerts",
    "study": "studies",
    "revision": "revisions",
    "node": "nodes and trials",
    "alert_rule": "alert rules",
    "silence": "silences",
    "inhibit_rule": "inhibit rules",
    "route": "routes",
    "alerting": "files that were applied",
    "destination": "destinations",
    "token": "tokens",
    "person": "people",
    "session": "sessions",
    "secrets": "secrets",
    "ledger": "the ledger itself",
}
"""What comes before the dot of an entry's kind, and how a group of kinds is called."""
FOUND_BY = ("kind", "actor", "subject", "text")
MOST_ROWS, MOST_ENTRIES = 60, 500


def wanted_of(selection: Selection) -> dict[str, Any]:
    """What the address asks for, as the API takes it. The bar's node or revision is a subject, where none is said.

    A span that goes on begins at a whole minute, so that all who look at it ask the same.
    """
    found: dict[str, Any] = {name: selection.own[name] for name in FOUND_BY if name in selection.own}
    if "subject" not in found:
        for name in ("node", "revision"):
            if name in selection.filters:
                found["subject"] = f"{name}/{selection.filters[name]}"
    if selection.range_said:
        start, end = selection.range.at(selection.now)
        live = selection.range.is_live
        found["start"] = start.replace(second=0, microsecond=0) if live else start
        found |= {} if live else {"end": end}
    return found


def cursor_of(selection: Selection) -> str:
    """Where the page begins; empty for the newest. Raises `BadRequest`."""
    cursor = selection.own.get("cursor", "")
    if cursor and not is_number(cursor):
        raise BadRequest("cursor: wants the number that the page before gave", field="cursor")
    return cursor


def ledger(client: Client, selection: Selection) -> Context:
    """A page of rows; trials are folded unless the address says otherwise."""
    cursor = cursor_of(selection)
    fold = selection.own.get("fold") != "off"
    page = client.ledger_page(limit=MOST_ENTRIES, cursor=cursor or None, **wanted_of(selection))
    studies = client.studies() if fold else []
    rows, last = rows_of(page.items, studies, MOST_ROWS, fold=fold)
    after = page.next if last is None else str(last)
    return {
        "rows": rows,
        "address": address,
        "folded": any(row.trials for row in rows),
        "fold": fold,
        "newer": selection.query(cursor=None) or "?" if cursor else "",
        "older": selection.query(cursor=after) if after else "",
        "unfiltered": selection.query(**dict.fromkeys((*FILTERS, *FOUND_BY, "cursor", "from", "to"))) or "?",
        "narrowed": bool(wanted_of(selection)),
    }


def chain(client: Client, selection: Selection) -> Context:
    """Whether the newest entries are as they were written."""
    return {"check": client.ledger_check()}


def whole(client: Client, selection: Selection) -> Context:
    """What the form offers."""
    kind = selection.own.get("kind", "")
    return {"kinds": KINDS if kind in ("", *KINDS) else {kind: kind, **KINDS}}


PAGE = Page(
    "ledger",
    "/ledger",
    "Ledger",
    (Part("ledger", ledger), Part("chain", chain, 30)),
    key="l",
    any_time=True,
    own=cursor_of,
    whole=whole,
)
