"""Who looks after an alert, and in what the alerts of one incident agree."""

from controlplane.contract.on_call.incidents import Route
from controlplane.incidents.routes import key_of, route_of
from tests.controlplane.incidents.conftest import START

LABELS = {"pool": "chat", "severity": "page", "node": "gpu-1"}


def route(number: int, *group_by: str, **matchers: str) -> Route:
    return Route(id=number, name=f"r{number}", matchers=matchers, owner="o", group_by=list(group_by), created_at=START)


def test_the_first_that_matches_counts_whatever_their_order() -> None:
    routes = [route(3), route(2, pool="chat"), route(1, pool="batch")]
    for given in (routes, routes[::-1]):
        found = route_of(given, LABELS)
        assert found is not None and found.id == 2
    assert route_of(routes[2:], LABELS) is None


def test_all_matchers_must_hold() -> None:
    assert route_of([route(1, pool="chat", severity="ticket")], LABELS) is None


def test_a_route_says_in_what_alerts_agree() -> None:
    assert key_of(None, LABELS) == {"pool": "chat"}
    assert key_of(route(1, "node", "region"), LABELS) == {"node": "gpu-1", "region": ""}
    assert key_of(route(1), LABELS) == {}
