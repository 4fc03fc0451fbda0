"""The whole application in process, with a few routes that fail on purpose."""

from collections.abc import Iterator
from typing import Annotated

import pytest
from fastapi import FastAPI, Query
from fastapi.testclient import TestClient
from sqlalchemy.exc import DataError, IntegrityError, OperationalError

from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings
from controlplane.contract import errors

OUTCOMES: dict[str, Exception] = {
    "conflict": errors.Conflict("it runs already", field="state"),
    "overloaded": errors.Overloaded("too many at once", retry_after_s=2.5),
    "unavailable": errors.Unavailable("not yet"),
    "integrity": IntegrityError("INSERT", {}, Exception("unique")),
    "data": DataError("INSERT", {}, Exception("NUL")),
    "operational": OperationalError("SELECT", {}, Exception("secret host is down")),
    "surprise": RuntimeError("a secret"),
}


@pytest.fixture(scope="session")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    made = create_app(ServiceSettings(data_dir=tmp_path_factory.mktemp("api"), log_level="error"))

    @made.get("/failing/{outcome}")
    def failing(outcome: str, size: Annotated[int, Query(ge=1)] = 1) -> None:
        raise OUTCOMES[outcome]

    # Without the lifespan: no background work runs while errors are looked at.
    made.state.service.telemetry.start()
    yield made
    made.state.service.telemetry.close()
    made.state.service.database.close()


@pytest.fixture(scope="session")
def http(app: FastAPI) -> TestClient:
    token = (app.state.service.settings.data_dir / "admin-token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    return TestClient(app, headers=headers, raise_server_exceptions=False)
