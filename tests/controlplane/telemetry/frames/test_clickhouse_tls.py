"""ClickHouse over TLS: whom the client trusts, and that no proxy hears the password (SEC H5, M10)."""

import ssl
from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings
from controlplane.contract.errors import Unavailable
from controlplane.serving.authority import Authority
from controlplane.serving.tls import client_context
from controlplane.telemetry.frames.clickhouse import ClickHouseServer
from tests.controlplane.telemetry.frames.embedded_clickhouse import EmbeddedClickHouse, served


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    made = Authority(tmp_path / "tls")
    now = datetime.now(UTC)
    made.init(now)
    made.issue_server("clickhouse", ["127.0.0.1"], now)
    return made


@pytest.fixture
def server_side(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.folder / "clickhouse.pem", authority.folder / "clickhouse.key")
    return context


def test_only_a_server_that_the_ca_vouches_for_is_spoken_to(
    authority: Authority,
    server_side: ssl.SSLContext,
    embedded_clickhouse: EmbeddedClickHouse,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    stranger = Authority(tmp_path / "other")
    stranger.init(datetime.now(UTC))
    with served(embedded_clickhouse, tls=server_side) as url:
        with ClickHouseServer(url, tls=client_context(authority.folder / "ca.pem")) as known:
            assert list(known.rows("SELECT toInt64(7) AS x", ["Int64"])) == [(7,)]
        for trusted in (client_context(stranger.folder / "ca.pem"), None):
            with ClickHouseServer(url, tls=trusted) as unknown, pytest.raises(Unavailable, match="certificate"):
                unknown.ask("SELECT 1")


@pytest.mark.parametrize("vouched", [True, False])
def test_the_service_keeps_frames_over_tls_and_says_where_it_cannot(
    authority: Authority,
    server_side: ssl.SSLContext,
    empty_clickhouse: EmbeddedClickHouse,
    tmp_path: Path,
    vouched: bool,
) -> None:
    with served(empty_clickhouse, tls=server_side) as url:
        ca_file = authority.folder / "ca.pem" if vouched else None
        settings = ServiceSettings(data_dir=tmp_path / "data", clickhouse_url=url, clickhouse_ca_file=ca_file)
        with TestClient(create_app(settings), base_url="http://localhost") as http:
            said = http.get("/readyz").json()
    assert ("frames_unavailable" in said["degraded"]) == (not vouched)
