"""Who is let in by which guard: every scope at every guard, over HTTP; and what is written down of it."""

import asyncio
import base64
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from controlplane.api import error_handlers
from controlplane.auth import browser_sessions, guard, store
from controlplane.auth.guard import (
    Admin,
    AgentAccess,
    Enroller,
    Holder,
    HookReader,
    Operator,
    Poster,
    Reader,
    TokenAdmin,
    TokenReader,
)
from controlplane.auth.node_certificate import NodeCertificates
from controlplane.auth.principal import Principal
from controlplane.auth.token_cache import AuthParts, TokenCache
from controlplane.auth.turned_away import Reason
from controlplane.auth.watch.security_log import remember_speaker, speaker_of
from controlplane.contract.bodies.access import Scope
from controlplane.contract.clock import utc_now
from controlplane.db.database import Database
from tests.keyrings import keyring_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LET_IN = {
    "holder": {"read", "operate", "admin", "agent", "enrol", "post"},
    "reader": {"read", "operate", "admin"},
    "operator": {"operate", "admin"},
    "admin": {"admin"},
    "agent": {"agent", "admin"},
    "enroller": {"enrol", "admin"},
    "poster": {"post", "operate", "admin"},
    "hook": {"read", "operate", "admin"},
    "token-reader": {"read", "operate", "admin"},
    "token-admin": {"admin"},
}
"""By guard the scopes that it lets in."""
ITSELF = {"agent", "enroller", "hook", "token-reader", "token-admin"}
"""The guards at which a browser's session does not do."""
SENSITIVE = "/api/v1/tokens"


@pytest.fixture
def parts(database: Database) -> AuthParts:
    return AuthParts(database=database, clock=utc_now, tokens=TokenCache(database), keyring=keyring_of(database))


@pytest.fixture
def http(parts: AuthParts) -> Iterator[TestClient]:
    app = FastAPI()
    error_handlers.install(app)
    app.state.service = parts

    @app.get("/holder")
    def holder(principal: Holder) -> str:
        return principal.name

    @app.get("/reader")
    def reader(principal: Reader) -> str:
        return principal.name

    @app.get("/operator")
    def operator(principal: Operator) -> str:
        return principal.name

    @app.get("/admin")
    def admin(principal: Admin) -> str:
        return principal.name

    @app.get("/agent")
    def agent(principal: AgentAccess) -> str:
        return f"{principal.name} of {principal.node}"

    @app.get("/enroller")
    def enroller(principal: Enroller) -> str:
        return principal.name

    @app.get("/poster")
    def poster(principal: Poster) -> str:
        return principal.name

    @app.get("/hook")
    def hook(principal: HookReader) -> str:
        return principal.name

    @app.get("/token-reader")
    def token_reader(principal: TokenReader) -> str:
        return principal.name

    @app.get("/token-admin")
    def token_admin(principal: TokenAdmin) -> str:
        return principal.name

    @app.get(SENSITIVE)
    @app.post(SENSITIVE)
    def sensitive(principal: Reader) -> str:
        return principal.name

    with TestClient(app) as client:
        yield client


def header(database: Database, scope: Scope, node: str | None = None) -> dict[str, str]:
    with database.session() as session:
        _, token = store.issue(session, name=f"of {scope}", scope=scope, now=NOW, node=node)
    return {"Authorization": f"Bearer {token}"}


def session_of(database: Database, scope: Scope, now: datetime | None = None) -> str:
    """The secret of a browser's session of a new token."""
    with database.session() as session:
        number = store.issue(session, name=f"of {scope}", scope=scope, now=NOW)[0].id
        return browser_sessions.begin(session, now or utc_now(), token_id=number).secret


def in_address(header: dict[str, str], user: str = "any") -> dict[str, str]:
    """What a client makes of an address with the header's token in it."""
    token = header["Authorization"].removeprefix("Bearer ")
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()}


@pytest.mark.parametrize("guard", LET_IN)
def test_a_guard_lets_in_whom_it_names(database: Database, http: TestClient, guard: str) -> None:
    answers = {scope.value: http.get(f"/{guard}", headers=header(database, scope)) for scope in Scope}
    assert {scope for scope, answer in answers.items() if answer.status_code == 200} == LET_IN[guard]
    assert {answer.status_code for answer in answers.values()} <= {200, 403}


def test_the_endpoint_is_told_who_speaks(database: Database, http: TestClient) -> None:
    assert http.get("/reader", headers=header(database, Scope.OPERATE)).json() == "of operate"
    assert http.get("/agent", headers=header(database, Scope.AGENT, "n1")).json() == "of agent of n1"


@pytest.mark.parametrize("guard", LET_IN)
def test_nobody_is_let_in_without_a_token(http: TestClient, guard: str) -> None:
    assert http.get(f"/{guard}").status_code == 401
    assert http.get(f"/{guard}", headers={"Authorization": "Bearer nobody's"}).status_code == 401


@pytest.mark.parametrize("guard", LET_IN)
def test_a_browser_s_session_does_but_where_a_token_itself_is_wanted(
    database: Database, http: TestClient, guard: str
) -> None:
    answer = http.get(f"/{guard}", headers={"Authorization": f"Bearer {session_of(database, Scope.ADMIN)}"})
    assert answer.status_code == (403 if guard in ITSELF else 200)
    assert ("a token itself, not a browser's session" in answer.text) == (guard in ITSELF)


@pytest.mark.parametrize("guard", LET_IN)
def test_a_token_in_the_address_counts_for_who_can_send_no_header(
    database: Database, http: TestClient, guard: str
) -> None:
    answer = http.get(f"/{guard}", headers=in_address(header(database, Scope.ADMIN)))
    assert answer.status_code == (200 if guard == "hook" else 401)
    assert http.get("/hook", headers=in_address({"Authorization": "Bearer nobody's"})).status_code == 401


@pytest.mark.parametrize(
    ("said", "taken"),
    [
        ("Bearer abc", "Bearer abc"),
        ("", ""),
        ("Basic dXNlcjpzZWNyZXQ=", "Bearer secret"),
        ("bASIC  dXNlcjpzZWNyZXQ= ", "Bearer secret"),
        ("Basic dTphOmI=", "Bearer a:b"),
        ("Basic dXNlc!jpzZWNyZXQ=", "Basic dXNlc!jpzZWNyZXQ="),  # Not of base64's alphabet.
        ("Basic dXNlcjpzZWNyZXQ", "Basic dXNlcjpzZWNyZXQ"),
        ("Basic /////w==", "Basic /////w=="),  # No text.
    ],
)
def test_the_password_of_an_address_is_the_token_and_all_else_stays(said: str, taken: str) -> None:
    assert guard.from_address(said) == taken


def test_what_is_sensitive_is_written_down_when_it_is_read(
    database: Database, http: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    reader = header(database, Scope.READ)
    for path in ("/reader", SENSITIVE):
        assert http.get(path, headers=reader).status_code == 200
    assert http.post(SENSITIVE, headers=header(database, Scope.OPERATE)).status_code == 200
    assert http.get(SENSITIVE, headers=header(database, Scope.POST)).status_code == 403
    lines = [line.partition(" holder")[0] + line[line.find(" route") :] for line in caplog.messages if "read: " in line]
    assert lines == [f"read: actor='of read' route='GET {SENSITIVE}'"], "who writes, or is refused, reads nothing"


def test_who_is_let_in_is_written_down_by_token_and_by_session(
    database: Database, http: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    shown = [header(database, Scope.READ), {"Authorization": f"Bearer {session_of(database, Scope.OPERATE)}"}]
    assert [http.get("/reader", headers=one).status_code for one in shown] == [200, 200]
    assert http.get("/reader", headers={"Authorization": "Bearer nobody's"}).status_code == 401
    let_in = [line.partition(" holder")[0] for line in caplog.messages if line.startswith("let in: ")]
    assert let_in == ["let in: actor='of read'", "let in: actor='of operate'"]


def test_a_use_is_noted_of_the_token_that_was_shown(database: Database, http: TestClient, parts: AuthParts) -> None:
    shown, waits = header(database, Scope.READ), header(database, Scope.READ)
    http.get("/reader", headers=shown)
    parts.token_uses.write(database, NOW)
    with database.read_session() as session:
        views = {view.id: view.last_used_at for view in store.listing(session, before_id=None, limit=9)}
        mine, other = (store.find(session, one["Authorization"].removeprefix("Bearer ")) for one in (shown, waits))
    assert mine is not None and other is not None
    assert (views[mine.id], views[other.id]) == (NOW, None)


def test_a_node_s_token_is_let_in_by_its_node_s_connection_alone(database: Database, parts: AuthParts) -> None:
    strict = replace(parts, node_certificates=NodeCertificates(required=True))
    app = FastAPI()
    error_handlers.install(app)
    app.state.service = strict

    @app.get("/agent")
    def agent(principal: AgentAccess) -> str:
        return principal.name

    with TestClient(app) as client:
        refused = client.get("/agent", headers=header(database, Scope.AGENT, "n1"))
        assert (refused.status_code, "client certificate" in refused.text) == (403, True)
        assert client.get("/agent", headers=header(database, Scope.ADMIN)).status_code == 200


def request_of(headers: dict[str, str]) -> Request:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "GET", "path": "/", "headers": raw, "client": ("10.0.0.9", 1)})


def test_the_log_knows_who_sent_what_is_refused_before_any_guard_has_asked(
    database: Database, parts: AuthParts
) -> None:
    known, unknown = header(database, Scope.READ), {"Authorization": "Bearer nobody's"}
    in_a_browser = {"Authorization": f"Bearer {session_of(database, Scope.OPERATE)}"}
    told = []
    for headers in (known, in_a_browser, unknown, {}):
        request = request_of(headers)
        asyncio.run(guard.identify(parts, request))
        told.append(speaker_of(request).actor)
    assert told == ["of read", "of operate", "-", "-"]
    request = request_of(known)
    remember_speaker(request.scope, Principal("who was asked", Scope.READ, 4711))
    asyncio.run(guard.identify(parts, request))
    assert speaker_of(request).actor == "who was asked", "it is known: nobody is asked again"


def test_sessions_of_pages_are_known_by_what_they_may_do_and_an_ended_one_is_counted(
    database: Database, parts: AuthParts, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    operates, ended = session_of(database, Scope.OPERATE), session_of(database, Scope.ADMIN, NOW)
    assert guard.scopes_of(parts, [operates, ended]) == {operates: Scope.OPERATE, ended: None}
    assert parts.turned_away.counts == {Reason.UNKNOWN_TOKEN: 1}
    let_in = [line.partition(" holder")[0] for line in caplog.messages if line.startswith("let in: ")]
    assert let_in == ["let in: actor='of operate'"]
    for secret, path in ((operates, SENSITIVE), (operates, "/api/v1/nodes"), (ended, SENSITIVE)):
        guard.read_on_page(parts, secret, path)
    lines = [line.partition(" holder")[0] for line in caplog.messages if line.startswith("read: ")]
    assert lines == ["read: actor='of operate'", "read: actor='-'"]
