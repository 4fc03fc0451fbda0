"""Configurations: the revisions that there are, what runs where, what became of them, and any two compared."""

import math

from controlplane.client import Client
from controlplane.contract.bodies.configs import Revision
from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.errors import BadRequest
from controlplane.contract.reports.declared_knobs import knob_of, names_in_order
from web.fleet.config_rows import changes_of, config_rows, used
from web.frame.page import Context, Page, Part
from web.frame.selection import Selection, is_number

A_PAGE = 50
MOST_LOOKED_AT = 4
"""Pools on a node of each of which it is looked what a change takes."""


def listed(client: Client, selection: Selection) -> Context:
    every, page = selection.own.get("show") == "all", _number(selection, "page") or 1
    found = config_rows(client.configs(), client.fleet(), client.rollouts(), selection.pool)
    if selection.range_said:
        start, end = selection.range.at(selection.now)
        found = [row for row in found if start <= row.revision.created_at <= end]
    shown = [row for row in found if every or used(row)]
    pages = max(1, math.ceil(len(shown) / A_PAGE))
    page = min(page, pages)
    return {
        "rows": shown[(page - 1) * A_PAGE : page * A_PAGE],
        "knobs": {name: knob_of(name, {}) for row in found for name in row.changed},
        "whole": len(found),
        "hidden": len(found) - sum(used(row) for row in found),
        "every": every,
        "other": selection.query(show=None if every else "all", page=None),
        "page": page,
        "pages": pages,
        "before": selection.query(page=str(page - 1)) if page > 1 else "",
        "after": selection.query(page=str(page + 1)) if page < pages else "",
    }


def compared(client: Client, selection: Selection) -> Context:
    """The two revisions of the address, what differs, and what going from the first to the second takes."""
    old, new = client.config(_asked(selection, "a")), client.config(_asked(selection, "b"))
    nodes = looked_at(client, selection, old)
    pools = sorted({node.pool for node in nodes})
    return {
        "old": old,
        "new": new,
        "changes": changes_of(old, new, nodes),
        "same": [knob_of(name, {}) for name in names_in_order(new.knobs.knobs()) if name not in _differing(old, new)],
        "knobs_of": new.knobs.knobs(),
        "swapped": selection.query(a=str(new.number), b=str(old.number)),
        "pool": pools[0] if pools else "",
        "closed": selection.query(a=None, b=None),
        "command": f"tailwright rollout start --pool {pools[0] if pools else 'POOL'} --revision {new.number}",
    }


def looked_at(client: Client, selection: Selection, old: Revision) -> list[NodeView]:
    """A serving node of each pool, one that is heard from and runs the old revision where there is such."""
    told = client.fleet()
    places = [
        at
        for at, role in enumerate(told.role)
        if role is NodeRole.SERVING and selection.pool in (None, told.pool[at]) and told.revision[at] is not None
    ]
    best: dict[str, int] = {}
    for at in sorted(places, key=lambda at: (told.desired_revision[at] != old.number, told.state[at] == "offline")):
        best.setdefault(told.pool[at], at)
    return [client.node(told.node[best[pool]]) for pool in sorted(best)[:MOST_LOOKED_AT]]


def _differing(old: Revision, new: Revision) -> set[str]:
    return {change.knob.name for change in changes_of(old, new, [])}


def own(selection: Selection) -> None:
    """Raises `BadRequest` that names the parameter."""
    for name in ("page", "a", "b"):
        _number(selection, name)


def comparing(selection: Selection) -> bool:
    return "a" in selection.own and "b" in selection.own


def about(client: Client, selection: Selection) -> Context:
    """What the page holds beside its parts. Raises `NotFound` for a revision that there is not."""
    numbers = sorted((revision.number for revision in client.configs()), reverse=True)
    offered = dict(zip(("b", "a"), numbers, strict=False))  # What the newest changed.
    return {
        "numbers": numbers,
        "comparing": comparing(selection),
        "chosen": {name: _number(selection, name) or offered.get(name) for name in ("a", "b")},
    }


def _asked(selection: Selection, name: str) -> int:
    number = _number(selection, name)
    if number is None:
        raise BadRequest(f"{name}: wants a revision's number", field=name)
    return number


def _number(selection: Selection, name: str) -> int | None:
    text = selection.own.get(name, "")
    if not text:
        return None
    if not is_number(text) or int(text) < 1:
        raise BadRequest(f"{name}: wants a number from 1 on", field=name)
    return int(text)


COMPARED = Part("config_changes", compared, 30, when=comparing)
PAGE = Page(
    "configs",
    "/configs",
    "Configurations",
    (COMPARED, Part("configs", listed, 15)),
    key="c",
    any_time=True,
    own=own,
    whole=about,
)
