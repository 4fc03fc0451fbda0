"""The route of what-if questions by itself, over a store of telemetry and a twin."""

from datetime import datetime

from fastapi import FastAPI
from fastapi.testclient import TestClient

from controlplane.api import error_handlers
from controlplane.auth.token_cache import TokenCache
from controlplane.db.database import Database
from controlplane.telemetry.store import TelemetryStore
from controlplane.whatif import endpoints
from controlplane.whatif.twin_desk import TwinDesk
from tests.keyrings import keyring_of


def asked_app(database: Database, traffic: TelemetryStore, twin: TwinDesk, token: str, now: datetime) -> TestClient:
    """A client of it, with that token."""
    app = FastAPI()
    app.state.service = endpoints.WhatIfParts(
        database=database,
        clock=lambda: now,
        tokens=TokenCache(database),
        keyring=keyring_of(database),
        traffic=traffic,
        twin=twin,
    )
    app.include_router(endpoints.router)
    error_handlers.install(app)
    return TestClient(app, headers={"Authorization": f"Bearer {token}"})
