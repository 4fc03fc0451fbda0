"""PostgreSQL values on the wire as they are: bytes as bytes, numbers as numbers, not as text of them.

As hexadecimal text a frame takes the client ten times as long to read, and an array of identities a thousand times as
long to write. Arrays are always sent so. Rows come so where a statement has the execution option `BINARY_ROWS`, which
is for columns of bytes and numbers: SQLAlchemy's own look at the catalogue reads some types as text only.
"""

from typing import TYPE_CHECKING, Any

from sqlalchemy import Engine, event

if TYPE_CHECKING:
    from psycopg import Connection

BINARY_ROWS = {"binary_rows": True}
"""Execution options; they mean nothing to other databases."""


def install(engine: Engine) -> None:
    from psycopg import pq  # A service on SQLite needs none of it.
    from psycopg.types.array import ListBinaryDumper

    def send_arrays(connection: "Connection[Any]", _: object) -> None:
        connection.adapters.register_dumper(list, ListBinaryDumper)

    def ask_for_rows(_: object, cursor: Any, _sql: str, _given: object, context: Any, _many: bool) -> None:
        if context is not None and context.execution_options.get("binary_rows"):
            cursor.format = pq.Format.BINARY

    event.listen(engine, "connect", send_arrays)
    event.listen(engine, "before_cursor_execute", ask_for_rows)
