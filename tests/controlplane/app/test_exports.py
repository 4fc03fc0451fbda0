"""The exporters that settings ask for: none by default, and each as it was set."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pydantic import ValidationError

from controlplane.app.exports import exporters_of
from controlplane.app.settings import ServiceSettings
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import BadRequest
from controlplane.db.database import Database
from controlplane.telemetry.forwarding.exporter import Exporter
from controlplane.telemetry.forwarding.meters import ExportMeters
from controlplane.telemetry.store import TelemetryStore
from tests.made_tables import migrate


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    found = Database(f"sqlite:///{tmp_path / 'own.db'}")
    migrate(found)
    yield found
    found.close()


def exporters(database: Database, **settings: Any) -> list[Exporter]:
    store = TelemetryStore(database, utc_now)
    return exporters_of(ServiceSettings(**settings), database, store, utc_now, ExportMeters(CollectorRegistry()))


def test_nothing_is_exported_unless_it_is_asked_for(database: Database) -> None:
    assert exporters(database) == []


def test_each_url_makes_its_exporter(database: Database) -> None:
    found = exporters(
        database,
        export_otlp_url="https://collector:4318/",
        export_otlp_headers=["Authorization=Bearer x"],
        export_otlp_scope="both",
        export_remote_write_url="http://prometheus/api/v1/write",
    )
    assert [exporter.name for exporter in found] == ["otlp", "remote_write"]
    sender = found[0]._sender
    assert (sender._url, sender.interval_s, len(sender._scopes)) == ("https://collector:4318/v1/metrics", 60, 2)
    assert sender._headers["Authorization"] == "Bearer x"
    for exporter in found:
        exporter.close()


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("export_otlp_url", "collector:4318"),
        ("export_otlp_interval_s", 7),
        ("export_otlp_scope", "all"),
        ("export_remote_write_url", "ftp://there"),
    ],
)
def test_mistakes_are_named(setting: str, value: object) -> None:
    with pytest.raises(ValidationError, match=setting):
        ServiceSettings(**{setting: value})


@pytest.mark.parametrize("setting", ["export_otlp_url", "export_remote_write_url"])
@pytest.mark.parametrize(
    ("host", "port", "url"),
    [
        ("127.0.0.1", 7300, "http://127.0.0.1:7300"),
        ("127.0.0.1", 7300, "http://localhost:7300/v1/metrics"),
        ("0.0.0.0", 7300, "http://[::1]:7300/api"),
        ("Box.example", 80, "http://box.example/v1/metrics"),
    ],
)
def test_the_service_s_own_address_is_refused(database: Database, setting: str, host: str, port: int, url: str) -> None:
    with pytest.raises(BadRequest, match=f"{setting}: .* is this service itself"):
        exporters(database, host=host, port=port, **{setting: url})


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:4318", "http://10.0.0.5:7300", "https://localhost", "http://box:7300"]
)
def test_other_addresses_are_not(database: Database, url: str) -> None:
    (found,) = exporters(database, host="127.0.0.1", port=7300, export_otlp_url=url)
    assert found.name == "otlp"
    found.close()
