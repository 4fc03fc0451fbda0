"""The tables of a test's database, by the statements that made them the first time in this process.

What makes them (an upgrade, the metadata) compiles the same hundred statements anew for each database, and that took
more time than what many a test is about. That an upgrade makes what the metadata say is tested by the real thing, in
`tests/controlplane/db/test_migrate.py`.
"""

from collections.abc import Callable, Hashable
from typing import Any

from sqlalchemy import MetaData, event, inspect
from sqlmodel import SQLModel

from controlplane.db.database import Database
from controlplane.db.migrate import upgrade

CHANGES = ("ALTER", "COMMENT", "CREATE", "DO", "DROP", "INSERT", "UPDATE")
"""How statements begin that change something: questions, locks and pragmas are not repeated."""
_recorded: dict[Hashable, list[tuple[str, Any]]] = {}


def migrate(database: Database) -> None:
    """As `upgrade` does."""
    _make(database, "upgrade", lambda: upgrade(database))


def create_tables(database: Database, metadata: MetaData = SQLModel.metadata) -> None:
    """As `metadata.create_all` does: the tables that are known by now and are not there."""
    _make(database, tuple(metadata.tables), lambda: metadata.create_all(database.engine))


def _make(database: Database, what: Hashable, make: Callable[[], None]) -> None:
    if inspect(database.engine).get_table_names():
        make()  # What is still missing is its own to find out.
        return
    key = (database.engine.dialect.name, what)
    if (known := _recorded.get(key)) is not None:
        with database.engine.begin() as connection:
            for statement, parameters in known:
                connection.exec_driver_sql(statement, parameters)
        return
    said: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, statement: str, parameters: Any, *___: Any) -> None:
        if statement.lstrip().upper().startswith(CHANGES):
            said.append((statement, parameters or None))

    event.listen(database.engine, "before_cursor_execute", note)
    try:
        make()
    finally:
        event.remove(database.engine, "before_cursor_execute", note)
    _recorded[key] = said
