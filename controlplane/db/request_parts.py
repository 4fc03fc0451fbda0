"""What a route is served with: the service's parts (a dependency container), and the session of its request."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Self

from fastapi import Depends, FastAPI, Request
from fastapi.requests import HTTPConnection
from sqlmodel import Session

from controlplane.contract.clock import Clock
from controlplane.db.database import Database


@dataclass(frozen=True, kw_only=True)
class Parts:
    """What every domain's routes are served with; a domain whose routes want more derives parts of its own.

    The application's `Service` derives from them all and stands in `app.state.service`: domains need not know it.
    """

    database: Database
    clock: Clock

    @classmethod
    def of(cls, app: FastAPI) -> Self:
        service = app.state.service
        assert isinstance(service, cls)
        return service

    @classmethod
    async def given(cls, connection: HTTPConnection) -> Self:
        """The dependency of a route, HTTP's or a WebSocket's."""
        return cls.of(connection.app)


Basis = Annotated[Parts, Depends(Parts.given)]
"""The service's database and clock."""


def address_of(connection: HTTPConnection) -> str:
    """Where a request came from; behind an allowed proxy, what that says."""
    return connection.client.host if connection.client else "unknown"


def request_session(request: Request) -> Iterator[Session]:
    """The dependency behind `SessionDep`; the API's document knows it by this name."""
    database = Parts.of(request.app).database
    if request.method in {"GET", "HEAD"} and database.is_sqlite:
        with database.read_session() as session:
            yield session
        return
    with database.session() as session:
        yield session


SessionDep = Annotated[Session, Depends(request_session, scope="function")]
"""The session of one HTTP request; committed before the answer is sent. GET requests take no write lock."""
