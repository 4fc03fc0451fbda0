"""Statements that are compiled once and then given to the driver as they are.

SQLAlchemy's own work on a small select, its cache and its parameters, takes several times as long as SQLite takes to
run it, and a query of telemetry runs half a dozen of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, CursorResult, Select, TextClause

Compiled = tuple[str, Sequence[str] | None]
"""Its SQL, and the names of its values in their order, where the driver wants them by order."""


class DriverStatement:
    """A select whose values are all named, of columns that the driver gives as they are: numbers, text, bytes.

    options: execution options.
    """

    def __init__(self, statement: Select[*tuple[Any, ...]] | TextClause, **options: Any) -> None:
        self._statement = statement
        self._options = options
        self._compiled: dict[str, Compiled] = {}

    def run(self, connection: Connection, given: Mapping[str, Any]) -> CursorResult[*tuple[Any, ...]]:
        """`given`: by name; others than the statement's own do no harm."""
        dialect = connection.dialect
        found = self._compiled.get(dialect.name)
        if found is None:
            compiled = self._statement.compile(dialect=dialect)
            found = self._compiled[dialect.name] = str(compiled), compiled.positiontup
        sql, order = found
        values: Any = dict(given) if order is None else tuple(given[name] for name in order)
        return connection.exec_driver_sql(sql, values, execution_options=self._options)
