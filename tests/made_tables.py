"""The tables of a test's database, by what made them the first time in this process: a copy of that file on SQLite; on
PostgreSQL a schema that a test has left, or the same statements.

What makes them (an upgrade, the metadata) compiles the same hundred statements anew for each database, and that took
more time than what many a test is about. That an upgrade makes what the metadata say is tested by the real thing, in
`tests/controlplane/db/test_migrate.py`.

Nothing of them is lost by a power cut, either: SQLite does not wait for the disk. What is on the disk when a commit
returns is tested by `tests/controlplane/db/test_database.py` and by the kills, whose databases are not made here.
"""

import sqlite3
import threading
from collections.abc import Callable, Hashable
from typing import Any

from sqlalchemy import MetaData, event, inspect
from sqlmodel import SQLModel

from controlplane.db.database import Database
from controlplane.db.migrate import upgrade
from tests import kept_schemas

CHANGES = ("ALTER", "COMMENT", "CREATE", "DO", "DROP", "INSERT", "UPDATE")
"""How statements begin that change something: questions, locks and pragmas are not repeated."""
_recorded: dict[Hashable, list[tuple[str, Any]]] = {}
_copied: dict[Hashable, sqlite3.Connection] = {}
_one_by_one = threading.Lock()


def migrate(database: Database) -> None:
    """As `upgrade` does."""
    _make(database, "upgrade", lambda: upgrade(database))


def create_tables(database: Database, metadata: MetaData = SQLModel.metadata) -> None:
    """As `metadata.create_all` does: the tables that are known by now and are not there."""
    _make(database, tuple(metadata.tables), lambda: metadata.create_all(database.engine))


def upgrade_of_application(database: Database) -> None:
    """As `upgrade` does; on PostgreSQL it is the real one, which replicas that start at once wait for."""
    if database.is_sqlite:
        migrate(database)
    else:
        upgrade(database)


def _make(database: Database, what: Hashable, make: Callable[[], None]) -> None:
    if database.is_sqlite and not event.contains(database.engine, "connect", wait_for_no_disk):
        event.listen(database.engine, "connect", wait_for_no_disk)
    with _one_by_one:
        if inspect(database.engine).get_table_names():
            make()  # What is still missing is its own to find out.
        elif database.is_sqlite:
            copy(database, what, make)
        elif not kept_schemas.take(database.engine, what):
            repeat(database, what, make)
            kept_schemas.note(database.engine, what)


def wait_for_no_disk(connection: Any, _: Any) -> None:
    connection.execute("PRAGMA synchronous=OFF")


def copy(database: Database, what: Hashable, make: Callable[[], None]) -> None:
    """An empty database on SQLite becomes what `make` made of the first one."""
    known = _copied.get(what)
    if known is None:
        make()
    connection = database.engine.raw_connection()
    try:
        file = connection.dbapi_connection
        assert isinstance(file, sqlite3.Connection)
        if known is not None:
            known.backup(file)
        else:
            file.backup(_copied.setdefault(what, sqlite3.connect(":memory:", check_same_thread=False)))
    finally:
        connection.close()


def repeat(database: Database, what: Hashable, make: Callable[[], None]) -> None:
    """In an empty database, what `make` said to the first one is said again."""
    if (known := _recorded.get(what)) is not None:
        with database.engine.begin() as connection:
            for statement, parameters in known:
                options = {"no_parameters": parameters is None}  # So that it may be several.
                connection.exec_driver_sql(statement, parameters, execution_options=options)
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
    _recorded[what] = said if database.is_sqlite else together(said)  # SQLite takes one at a time.


def together(said: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Statements without parameters that follow each other as one: hundreds of ways to the server and back."""
    found: list[tuple[str, Any]] = []
    for statement, parameters in said:
        plain = parameters is None and "%" not in statement  # A driver that looks for parameters has them doubled.
        if plain and found and found[-1][1] is None:
            found[-1] = (f"{found[-1][0]};\n{statement}", None)
        else:
            found.append((statement, None if plain else parameters or ()))
    return found
