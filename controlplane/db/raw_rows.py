"""Rows as the driver gives them: of thousands that are only ever compared, converting each takes most of the time."""

from typing import Any

from sqlalchemy import Connection, Select


def raw_rows(connection: Connection, query: Select[Any]) -> list[tuple[Any, ...]]:
    """All of them. The query has no parameters; columns that the database has no type for are as it keeps them."""
    result = connection.exec_driver_sql(str(query.compile(dialect=connection.dialect)))
    assert result.cursor is not None  # It is a query.
    rows = list(result.cursor.fetchall())
    result.close()
    return rows
