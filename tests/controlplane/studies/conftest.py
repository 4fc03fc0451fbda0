"""A database of each kind with a pool of one serving and one trial node, and the studies' endpoints over it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx
import pytest
from fastapi import FastAPI
from sqlmodel import Session, col, select

import controlplane.rollouts.tables
import controlplane.studies.tables  # noqa: F401
from controlplane.api import error_handlers
from controlplane.auth import store as tokens
from controlplane.auth.token_cache import TokenCache
from controlplane.client import Client
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.ledger.tables import LedgerRow
from controlplane.studies import endpoints, lease_endpoints
from controlplane.studies.meters import LateReports
from controlplane.studies.prompt_sets import prompt_set_endpoints
from controlplane.studies.workloads import workload_endpoints
from tests.keyrings import keyring_of
from tests.made_tables import create_tables

START = datetime(2025, 3, 1, 12, 0, tzinfo=UTC)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def pass_s(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now


class InProcess(httpx.BaseTransport):
    """Calls an application without a socket."""

    def __init__(self, app: FastAPI) -> None:
        self._asgi = httpx.ASGITransport(app)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = request.read()
        wanted = httpx.Request(request.method, request.url, headers=request.headers, content=body)

        async def call() -> httpx.Response:
            response = await self._asgi.handle_async_request(wanted)
            return httpx.Response(response.status_code, headers=response.headers, content=await response.aread())

        return anyio.run(call)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        found = Database(f"sqlite:///{tmp_path / 'tailwright.db'}")
    else:
        found = Database(request.getfixturevalue("postgres_schema_url"))
    create_tables(found)
    with found.session() as session:
        for node, role in (("a", "serving"), ("t", "trial")):
            fleet.place(session, node, pool="chat", role=role, backend="embedded", now=START)
        fleet.place(session, "x", pool="code", role="serving", backend="embedded", now=START)
        fleet.place(session, "y", pool="idle", role="trial", backend="embedded", now=START)
    yield found
    found.close()


@pytest.fixture
def spec() -> StudyCreate:
    return StudyCreate(pool="chat", reason="p99 is high")


@pytest.fixture
def ledger_kinds(database: Database) -> Callable[[], list[str]]:
    def read() -> list[str]:
        with Session(database.engine) as session:
            query = select(LedgerRow.kind).where(col(LedgerRow.kind).startswith("study.")).order_by(col(LedgerRow.id))
            return list(session.exec(query))

    return read


@pytest.fixture
def app(database: Database, clock: Clock) -> FastAPI:
    app = FastAPI()
    app.state.busy = {}
    app.state.service = endpoints.StudyParts(
        database=database,
        clock=clock,
        tokens=TokenCache(database),
        keyring=keyring_of(database),
        not_at_rest=lambda session, now: dict(app.state.busy),
        late_reports=LateReports(),
        may_tune=lambda session, pool, principal: None,
    )
    app.include_router(endpoints.router)
    app.include_router(lease_endpoints.router)
    app.include_router(workload_endpoints.router)
    app.include_router(prompt_set_endpoints.router)
    error_handlers.install(app)
    return app


@pytest.fixture
def client(app: FastAPI, database: Database) -> Iterator[Callable[[Scope], Client]]:
    """Makes typed clients that call the endpoints in process."""
    made: list[Client] = []

    def make(scope: Scope) -> Client:
        with database.session() as session:
            _, token = tokens.issue(session, name=scope.value, scope=scope, now=START)
        made.append(Client("http://testserver", token, transport=InProcess(app)))
        return made[-1]

    yield make
    for one in made:
        one.close()
