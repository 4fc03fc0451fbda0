"""The lines of the log of security: what each says, and that no sender writes one."""

import logging
from typing import Any

import pytest
from starlette.requests import HTTPConnection

from controlplane.auth.principal import Principal
from controlplane.auth.watch.security_log import (
    INPUT_LIMIT,
    LET_IN_S,
    PERIOD_S,
    REFUSED_LIMIT,
    SecurityLog,
    remember_speaker,
)
from controlplane.contract.bodies.access import Scope

CI = Principal("ci", Scope.READ, 3)


class Route:
    path = "/api/v1/nodes/{node}"


def connection(principal: Principal | None = None, *, path: str = "/api/v1/nodes/n1", **more: Any) -> HTTPConnection:
    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "client": ("10.0.0.9", 1), **more}
    if principal is not None:
        remember_speaker(scope, principal)
    return HTTPConnection(scope)


def test_who_is_let_in_has_a_line_an_hour_for_each_address(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    now_s = 0.0
    log = SecurityLog(lambda: now_s)
    for _ in range(720):
        log.let_in(CI, "10.0.0.9")
    log.let_in(CI, "10.0.0.8")
    log.let_in(Principal("ann", Scope.ADMIN, None, session_id=7, person_id=2), "10.0.0.8")
    now_s = LET_IN_S
    log.tell_due()
    assert caplog.messages == [
        "let in: actor='ci' holder=token/3 address=10.0.0.9 scope=read",
        "let in: actor='ci' holder=token/3 address=10.0.0.8 scope=read",
        "let in: actor='ann' holder=person/2 session=7 address=10.0.0.8 scope=admin",
        "let in: actor='ci' holder=token/3 address=10.0.0.9 scope=read again=719",
    ]


def test_each_refusal_has_its_actor_route_and_reason(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 0.0
    log = SecurityLog(lambda: now_s)
    for _ in range(3):
        log.refused("forbidden", connection(CI, route=Route()))
    log.refused("forbidden", connection(CI, path="/api/v1/tokens"))
    log.refused("no_token", connection(path="/api/v1/tokens"))
    log.refused("no_token", connection(path="/v1/opamp", type="websocket", method="GET"))
    log.refused_at_the_door("cross_site", "10.0.0.7")
    now_s = PERIOD_S
    log.tell_due()
    assert caplog.messages == [
        "refused: reason=forbidden actor='ci' holder=token/3 address=10.0.0.9 route='GET /api/v1/nodes/{node}'",
        "refused: reason=forbidden actor='ci' holder=token/3 address=10.0.0.9 route='GET /api/v1/tokens'",
        "refused: reason=no_token actor='-' holder=- address=10.0.0.9 route='GET /api/v1/tokens'",
        "refused: reason=no_token actor='-' holder=- address=10.0.0.9 route='GET /v1/opamp'",
        "refused: reason=cross_site actor='-' holder=- address=10.0.0.7 route='-'",
        "refused: reason=forbidden actor='ci' holder=token/3 address=10.0.0.9 route='GET /api/v1/nodes/{node}' again=2",
    ]


def test_no_sender_writes_a_line_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    log = SecurityLog()
    log.refused("method", connection(path="/a\nrefused: reason=none", method="X\nY"))
    log.bad_input(["body.a\nlet in: root", "\u2028", "body." + "x" * 500, *map(str, range(20))], connection(CI))
    log.let_in(Principal("ci\n\x1b[2J", Scope.READ, 3), "10.0.0.9")
    assert len(caplog.messages) == 3
    assert all(line.isascii() and line.isprintable() and len(line) < 600 for line in caplog.messages)
    assert "OTHER /a" in caplog.messages[0] and "and 15 more" in caplog.messages[1]


def test_what_a_sender_makes_up_has_a_bounded_number_of_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Names of fields, and paths that no route has: beyond the limit they are counted together."""
    caplog.set_level(logging.INFO)
    log = SecurityLog(lambda: 0.0)
    for number in range(3 * INPUT_LIMIT):
        log.bad_input([f"body.{number}"], connection(CI))
    for number in range(3 * REFUSED_LIMIT):
        log.refused("method", connection(path=f"/static/{number}"))
    assert len(caplog.messages) == INPUT_LIMIT + 1 + REFUSED_LIMIT + 1
    log.tell_all()
    several = [line for line in caplog.messages if "again=" in line]
    assert [line.rpartition("=")[2] for line in several] == [str(2 * REFUSED_LIMIT - 1), str(2 * INPUT_LIMIT - 1)]
    assert all("'several'" in line for line in several)
