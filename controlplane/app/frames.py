"""Which frame store the settings ask for."""

from controlplane.app.settings import StoreSettings
from controlplane.db.database import Database
from controlplane.serving.tls import client_context
from controlplane.telemetry.frames.clickhouse import ClickHouseServer
from controlplane.telemetry.frames.clickhouse_frames import ClickHouseFrames
from controlplane.telemetry.frames.frame_store import FrameStore
from controlplane.telemetry.frames.sql_frames import SqlFrames


def frames_of(settings: StoreSettings, database: Database) -> FrameStore:
    """A ClickHouse that is asked for need not answer yet."""
    if settings.clickhouse_url is None:
        return SqlFrames(database)
    tls = client_context(settings.clickhouse_ca_file) if settings.clickhouse_url.startswith("https:") else None
    return ClickHouseFrames(database, ClickHouseServer(settings.clickhouse_url, tls=tls))
