"""A route is served with the parts that its domain names, whoever put them together."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import pytest
from fastapi import Depends, FastAPI, WebSocket
from fastapi.testclient import TestClient

from controlplane.db.database import Database
from controlplane.db.request_parts import Basis, Parts

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Named(Parts):
    name: str


@dataclass(frozen=True, kw_only=True)
class Whole(Named):
    size: int


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(f"sqlite:///{tmp_path / 'parts.db'}")
    yield made
    made.close()


def test_http_and_websocket_routes_get_what_they_name(database: Database) -> None:
    app = FastAPI()
    app.state.service = Whole(database=database, clock=lambda: NOW, name="whole", size=3)

    @app.get("/")
    def read(service: Annotated[Named, Depends(Named.given)], basis: Basis) -> str:
        return f"{service.name} at {basis.clock():%Y}"

    @app.websocket("/")
    async def speak(socket: WebSocket, service: Annotated[Whole, Depends(Whole.given)]) -> None:
        await socket.accept()
        await socket.send_text(str(service.size))

    with TestClient(app) as client, client.websocket_connect("/") as socket:
        assert client.get("/").json() == "whole at 2030"
        assert socket.receive_text() == "3"


def test_a_service_without_the_parts_is_a_mistake_of_ours(database: Database) -> None:
    app = FastAPI()
    app.state.service = Parts(database=database, clock=lambda: NOW)
    assert Parts.of(app).database is database
    with pytest.raises(AssertionError):
        Named.of(app)
