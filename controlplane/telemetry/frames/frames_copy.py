"""New frames by COPY: two thirds of what PostgreSQL spends on an INSERT of each, a quarter of what the client does.

Guarantee: as an INSERT in the caller's transaction. A frame that is there already fails it: for new ones only.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection

from controlplane.telemetry.frames.frame_store import Frame

_COPY = 'COPY telemetry_frame (resolution, metric, block, "window", version, frame) FROM STDIN (FORMAT BINARY)'
_TYPES = ("int4", "int4", "int4", "int8", "int4", "bytea")


def copy(connection: Connection, frames: Iterable[Frame], version: int) -> None:
    driver: Any = connection.connection.dbapi_connection
    with driver.cursor() as cursor, cursor.copy(_COPY) as rows:
        rows.set_types(_TYPES)
        for key, data in frames:
            rows.write_row((*key, version, data))
