"""Who looks after an alert: the first route whose matchers its labels have (a routing table). Pure."""

from collections.abc import Iterable, Mapping

from controlplane.alerts.channels import payload
from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.on_call.incidents import Route

GROUPED_BY = ("pool",)
"""Where no route matches: incidents are of one pool."""


def route_of(routes: Iterable[Route], labels: Mapping[str, str]) -> Route | None:
    """The matching route that stands first. One without matchers matches all."""
    found = [one for one in routes if all(labels.get(name) == value for name, value in one.matchers.items())]
    return min(found, key=lambda one: (one.position, one.id), default=None)


def key_of(route: Route | None, labels: Mapping[str, str]) -> dict[str, str]:
    """The values in which all alerts of one incident agree."""
    return {name: labels.get(name, "") for name in (GROUPED_BY if route is None else route.group_by)}


def labels_of(alert: Alert) -> dict[str, str]:
    """What routes match and group by: the alert's labels, its rule's name and its severity."""
    return payload.labels_of(alert)
