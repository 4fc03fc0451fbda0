"""A viewer knows its session's scope, as it was last looked up, and tells shared answers from its own."""

from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from controlplane.contract.bodies.access import Scope
from web.access.shared_answers import SharedAnswers, SharingTransport
from web.access.viewer import Viewer, may_operate, scope_of


class Service:
    """An API that has nothing to tell."""

    def __init__(self) -> None:
        self.scope = Scope.ADMIN
        self.asked: list[str] = []
        self.answers = SharedAnswers()

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        return httpx.Response(200, json={"items": [], "next": None})

    def viewer(self) -> Viewer:
        return Viewer(
            "http://service", "s", SharingTransport(httpx.MockTransport(self.answer), self.answers, self.scope)
        )


def test_a_viewers_scope_is_known_and_another_clients_asked_for() -> None:
    service = Service()
    assert scope_of(service.viewer()) is Scope.ADMIN and service.asked == []
    other: Any = SimpleNamespace(own_session=lambda: SimpleNamespace(scope=Scope.READ))
    assert scope_of(other) is Scope.READ


@pytest.mark.parametrize(("scope", "may"), [(Scope.READ, False), (Scope.OPERATE, True), (Scope.ADMIN, True)])
def test_who_may_operate(scope: Scope, may: bool) -> None:
    service = Service()
    service.scope = scope
    assert may_operate(service.viewer()) is may


def test_a_scope_that_has_changed_shares_with_its_new_equals_only() -> None:
    service = Service()
    admin, was_admin = service.viewer(), service.viewer()
    admin.nodes()
    was_admin.nodes()
    assert service.asked == ["/api/v1/nodes"]
    was_admin.scope = Scope.READ
    was_admin.nodes()
    assert service.asked == ["/api/v1/nodes", "/api/v1/nodes"]


def test_it_tells_its_own_answers_from_shared_ones() -> None:
    viewer = Service().viewer()
    viewer.nodes()
    assert viewer.own_answers == 0
    viewer.sessions()
    assert viewer.own_answers == 1


def test_it_tells_of_changes() -> None:
    service = Service()
    viewer = service.viewer()
    assert viewer.changes == 0
    service.answers.forget()
    assert viewer.changes == 1
