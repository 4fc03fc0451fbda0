"""Many small rows written by one statement.

PostgreSQL pays for a statement several times what it pays for a small row, so there the rows travel as an array for
each column. SQLite has no such cost: its driver runs the statement once for each row.

Guarantee: rows are tried in the order given, so that two who write some of the same ones in one order never wait for
each other in a circle.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Executable, FromClause, Table, bindparam, false, func, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import dialect as sqlite_dialect
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlmodel import Session

Rows = Sequence[Mapping[str, Any]]
"""All with the same columns."""


def has_arrays(session: Session) -> bool:
    return session.get_bind().dialect.name == "postgresql"


def insert_missing(session: Session, table: Table, rows: Rows) -> None:
    """Insert those that are in conflict with none that is there."""
    if not rows:
        return
    if has_arrays(session):
        session.execute(_insert_missing(table, tuple(rows[0])), _arrays(rows))
    else:
        session.execute(sqlite_insert(table).on_conflict_do_nothing(), rows)


def insert_or_lock(session: Session, table: Table, rows: Rows) -> None:
    """As `insert_missing`, on PostgreSQL; and all of these keys are locked until the transaction ends."""
    session.execute(_insert_or_lock(table, tuple(rows[0])), _arrays(rows))


def set_by_key(session: Session, table: Table, rows: Rows) -> None:
    """Set the other columns of the rows with these keys. Locks in no particular order: lock them before.

    All columns are numbers, text or bytes, which the drivers take as they are.
    """
    names = tuple(rows[0])
    if has_arrays(session):
        session.execute(_set_from_arrays(table, names), _arrays(rows))
    else:
        # Straight to the driver: SQLAlchemy's own work on each row's values is half of what the whole update takes.
        statement, order = _set_one(table, names)
        session.connection().exec_driver_sql(statement, [tuple(row[name] for name in order) for row in rows])


def _arrays(rows: Rows) -> dict[str, list[Any]]:
    return {f"all_{name}": [row[name] for row in rows] for name in rows[0]}


def _given(table: Table, names: Sequence[str]) -> FromClause:
    """The rows of the arrays, in their order."""
    arrays = [bindparam(f"all_{name}", type_=ARRAY(table.c[name].type)) for name in names]
    return func.unnest(*arrays).table_valued(*names, name="given").render_derived()


def _insert(table: Table, names: Sequence[str]) -> Any:
    given = _given(table, names)
    return postgresql_insert(table).from_select(list(names), select(*(given.c[name] for name in names)))


@lru_cache
def _insert_missing(table: Table, names: tuple[str, ...]) -> Executable:
    found: Executable = _insert(table, names).on_conflict_do_nothing()
    return found


@lru_cache
def _insert_or_lock(table: Table, names: tuple[str, ...]) -> Executable:
    key = [column.name for column in table.primary_key]
    # An update that applies to no row still locks the row that it was tried on; a plain look-up could not lock rows
    # that are still to be made.
    found: Executable = _insert(table, names).on_conflict_do_update(
        index_elements=key, set_={key[0]: table.c[key[0]]}, where=false()
    )
    return found


@lru_cache
def _set_from_arrays(table: Table, names: tuple[str, ...]) -> Executable:
    given = _given(table, names)
    key = [column.name for column in table.primary_key]
    chosen = [table.c[name] == given.c[name] for name in key]
    return update(table).where(*chosen).values({name: given.c[name] for name in names if name not in key})


@lru_cache
def _set_one(table: Table, names: tuple[str, ...]) -> tuple[str, list[str]]:
    """SQLite's statement for one row, and the columns whose values it takes, in their order."""
    key = [column.name for column in table.primary_key]
    chosen = [table.c[name] == bindparam(f"new_{name}") for name in key]
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names if name not in key}
    compiled = update(table).where(*chosen).values(values).compile(dialect=sqlite_dialect())
    return str(compiled), [name.removeprefix("new_") for name in compiled.positiontup or ()]
