"""Reaching a service from the command line: patience with one that restarts, and what a change is laid over."""

import httpx
import pytest

from controlplane.command.rollout import production_revision
from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.errors import Conflict, Unavailable
from controlplane.terminal import service_connection


def test_a_service_that_restarts_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_connection.time, "sleep", lambda _: None)
    answers = iter([httpx.ConnectError("refused"), Unavailable("not yet"), "promoted"])

    def look() -> str:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert service_connection.persistently(look) == "promoted"


def test_patience_ends_and_refusals_are_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 10))
    monkeypatch.setattr(service_connection.time, "monotonic", lambda: next(now))
    slept: list[float] = []
    monkeypatch.setattr(service_connection.time, "sleep", slept.append)

    def fails(error: Exception) -> None:
        raise error

    with pytest.raises(httpx.ConnectError):
        service_connection.persistently(lambda: fails(httpx.ConnectError("refused")))
    assert len(slept) == service_connection.AWAY_S / 10
    with pytest.raises(Conflict):
        service_connection.persistently(lambda: fails(Conflict("no")))
    assert len(slept) == service_connection.AWAY_S / 10


def test_a_change_is_laid_over_production_and_not_over_an_experiment() -> None:
    def node(name: str, pool: str, role: NodeRole, revision: int | None) -> NodeView:
        return NodeView(
            node=name, pool=pool, role=role, backend="embedded", connected=True, healthy=True, desired_revision=revision
        )

    nodes = [
        node("a-trial", "chat", NodeRole.TRIAL, 9),
        node("b", "other", NodeRole.SERVING, 8),
        node("c", "chat", NodeRole.SERVING, None),
        node("d", "chat", NodeRole.SERVING, 3),
    ]
    assert production_revision(nodes, "chat") == 3
    assert production_revision(nodes, "empty") is None
