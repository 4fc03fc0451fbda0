"""Who is let in by which guard: every scope at every guard, over HTTP."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.api import error_handlers
from controlplane.auth import store
from controlplane.auth.guard import Admin, AgentAccess, Enroller, Holder, Operator, Poster, Reader
from controlplane.auth.token_cache import AuthParts, TokenCache
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
}
"""By guard the scopes that it lets in."""


@pytest.fixture
def http(database: Database) -> Iterator[TestClient]:
    app = FastAPI()
    error_handlers.install(app)
    app.state.service = AuthParts(
        database=database, clock=utc_now, tokens=TokenCache(database), keyring=keyring_of(database)
    )

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

    with TestClient(app) as client:
        yield client


def header(database: Database, scope: Scope, node: str | None = None) -> dict[str, str]:
    with database.session() as session:
        _, token = store.issue(session, name=f"of {scope}", scope=scope, now=NOW, node=node)
    return {"Authorization": f"Bearer {token}"}


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
