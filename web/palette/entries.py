"""What the palette offers: the dashboard's pages and actions, and what the API knows by the name that was typed."""

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from urllib.parse import quote

from controlplane.client import Client
from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.rollouts import Rollout
from controlplane.contract.bodies.studies import Study
from controlplane.contract.on_call.incidents import Incident
from web.frame.page import Page
from web.frame.selection import Selection
from web.palette.matching import MOST, Entry, matching

NEWEST = 50
"""Of alerts, rollouts and studies, so many are looked through: a palette is asked at each key."""
LONGEST_NAME = 128
ACTIONS = (
    Entry("action", "Pause or go on", action="pause"),
    Entry("action", "Zoom out", action="zoom-out", detail="twice the span"),
    Entry("action", "Change the theme", action="theme", detail="light, dark, as the system has it"),
    Entry("action", "Keyboard shortcuts", action="keys"),
    Entry("action", "Sign out", action="sign-out"),
)

_REQUEST_ID = re.compile(r"(?=.*\d)[^\s/]{8,128}")


def offered(client: Client, selection: Selection, pages: Iterable[Page], typed: str) -> list[Entry]:
    """What fits `typed`. Nothing typed: the pages and what can be done, without asking the API."""
    typed = typed.strip()
    known = [*_pages(pages, selection), *ACTIONS]
    if not typed:
        return known[:MOST]
    return matching([*known, *_known_to_the_service(client, selection, typed), *_request(typed, selection)], typed)


def _pages(pages: Iterable[Page], selection: Selection) -> Iterator[Entry]:
    for page in pages:
        query = selection.frame_query() if page.bar else ""
        yield Entry("page", page.title, page.path + query, detail=f"g {page.key}")


def _known_to_the_service(client: Client, selection: Selection, typed: str) -> Iterator[Entry]:
    query = selection.frame_query()
    # The word that a node's name may hold: "node gpu-7" is looked for as well.
    name = typed.split()[-1][:LONGEST_NAME]
    for node in islice(client.every(NodeView, "/api/v1/nodes", name=name, limit=MOST), MOST):
        yield Entry("node", node.node, f"/nodes/{quote(node.node, safe='')}{query}", detail=f"pool {node.pool}")
    for alert in islice(client.every(Alert, "/api/v1/alerts", limit=NEWEST), NEWEST):
        about = " ".join(alert.labels.values())
        yield Entry("alert", alert.rule, f"/alerts/{alert.id}", detail=f"{alert.id}, {alert.state.value}, {about}")
    for one in islice(client.every(Incident, "/api/v1/incidents", limit=NEWEST), NEWEST):
        told = f"{one.state.value}, {one.pool}, {one.title}"
        yield Entry("incident", f"Incident {one.id}", f"/incidents/{one.id}", detail=told)
    for rollout in islice(client.every(Rollout, "/api/v1/rollouts", limit=NEWEST), NEWEST):
        told = f"revision {rollout.spec.revision} to {rollout.spec.pool}, {rollout.phase.value.replace('_', ' ')}"
        yield Entry("rollout", f"Rollout {rollout.id}", f"/rollouts/{rollout.id}", detail=told)
    for study in islice(client.every(Study, "/api/v1/studies", limit=NEWEST), NEWEST):
        told = f"pool {study.spec.pool}, {study.state.value}"
        yield Entry("study", f"Study {study.id}", f"/studies/{study.id}", detail=told)


def _request(typed: str, selection: Selection) -> Iterator[Entry]:
    """What looks like a request's id leads to its page, which says whether there is one: the log is not searched."""
    found = _REQUEST_ID.fullmatch(typed)
    if found:
        yield Entry("request", typed, f"/requests/{quote(typed, safe='')}{selection.frame_query()}", detail="by its id")
