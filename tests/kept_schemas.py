"""PostgreSQL schemas with tables, used by one test after another: to make and drop one takes more CPU than most tests.

Each test finds what was just made: no rows but those that came with the tables, sequences at their start, files of no
pages. A schema in which anything but rows has changed (a table, partition, index, trigger, right) is dropped.
"""

import secrets
from collections.abc import Hashable
from typing import NamedTuple

from sqlalchemy import Connection, Engine, text

FORM = text("""
SELECT md5(string_agg(line, ' ' ORDER BY line)) FROM (
    SELECT concat_ws(' ', 'schema', nspacl) FROM pg_namespace WHERE nspname = :schema
    UNION ALL SELECT concat_ws(' ', relname, relkind, relacl, reloptions) FROM pg_class WHERE relnamespace = :of
    UNION ALL SELECT concat_ws(' ', relname, attnum, attname, atttypid, atttypmod, attnotnull, atthasdef, attstorage)
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid WHERE relnamespace = :of AND relkind IN ('r', 'p')
    UNION ALL SELECT concat_ws(' ', conname, contype, convalidated) FROM pg_constraint WHERE connamespace = :of
    UNION ALL SELECT concat_ws(' ', relname, tgname, tgenabled, tgtype)
        FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid WHERE relnamespace = :of AND NOT tgisinternal
    UNION ALL SELECT concat_ws(' ', proname, prosrc) FROM pg_proc WHERE pronamespace = :of
) AS form (line)
""")
WRITTEN = text("SELECT relname FROM pg_class WHERE relnamespace = :of AND relkind = 'r' AND pg_relation_size(oid) > 0")
COUNTED = text("SELECT sequencename FROM pg_sequences WHERE schemaname = :schema AND last_value IS NOT NULL")


class Made(NamedTuple):
    """What a schema was when its tables had been made: a hash of its form, and each table's rows as JSON."""

    form: str
    rows: dict[str, str]


_made: dict[Hashable, Made] = {}
"""By server and what was made there."""
_kept: dict[Hashable, list[str]] = {}
_in_use: dict[tuple[str, str], Hashable] = {}
"""By server and schema: what was made."""


def take(engine: Engine, what: Hashable) -> bool:
    """The connections' schema, which is empty, becomes one that was kept; False where none is there."""
    place = server(engine)
    if not (kept := _kept.get((place, what))):
        return False
    with engine.begin() as connection:
        schema = current(connection)
        connection.exec_driver_sql(f"DROP SCHEMA {schema}")
        connection.exec_driver_sql(f"ALTER SCHEMA {kept.pop()} RENAME TO {schema}")
    _in_use[place, schema] = what
    return True


def note(engine: Engine, what: Hashable) -> None:
    """The connections' schema has just got these tables."""
    place = server(engine)
    with engine.connect() as connection:
        schema = current(connection)
        if (place, what) not in _made:
            _made[place, what] = Made(form(connection, schema), rows(connection, schema))
    _in_use[place, schema] = what


def give_back(engine: Engine, schema: str, keep: bool = True) -> None:
    """A test is done with it: kept for the next, which only a superuser may have it emptied for, or dropped."""
    place = server(engine)
    what = _in_use.pop((place, schema), None)
    with engine.begin() as connection:
        made = _made[place, what] if keep and what is not None else None
        if made is None or form(connection, schema) != made.form:
            connection.exec_driver_sql(f"DROP SCHEMA {schema} CASCADE")
            return
        empty(connection, schema, made)
        kept = f"kept_{secrets.token_hex(6)}"
        connection.exec_driver_sql(f"ALTER SCHEMA {schema} RENAME TO {kept}")
    _kept.setdefault((place, what), []).append(kept)


def empty(connection: Connection, schema: str, made: Made) -> None:
    """Also of what refuses it: triggers sleep meanwhile."""
    connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
    if tables := written(connection, schema):
        connection.exec_driver_sql(f"TRUNCATE {', '.join(f'{schema}.{table}' for table in tables)} CASCADE")
    for sequence in connection.execute(COUNTED, {"schema": schema}).scalars().all():
        connection.exec_driver_sql(f"ALTER SEQUENCE {schema}.{sequence} RESTART")
    for table, first in made.rows.items():
        of = f"{schema}.{table}"
        connection.execute(
            text(f"INSERT INTO {of} SELECT * FROM json_populate_recordset(NULL::{of}, :rows)"), {"rows": first}
        )


def form(connection: Connection, schema: str) -> str:
    return str(connection.execute(FORM, {"schema": schema, "of": number(connection, schema)}).scalar_one())


def rows(connection: Connection, schema: str) -> dict[str, str]:
    """Of each table that has some."""
    asked = "SELECT json_agg(one)::text FROM {schema}.{table} AS one"
    return {
        table: str(connection.execute(text(asked.format(schema=schema, table=table))).scalar_one())
        for table in written(connection, schema)
    }


def written(connection: Connection, schema: str) -> list[str]:
    """Tables that something was ever written to, since they were made or emptied."""
    return list(connection.execute(WRITTEN, {"of": number(connection, schema)}).scalars().all())


def number(connection: Connection, schema: str) -> int:
    return int(connection.execute(text("SELECT CAST(:schema AS regnamespace)::oid"), {"schema": schema}).scalar_one())


def current(connection: Connection) -> str:
    return str(connection.execute(text("SELECT current_schema()")).scalar_one())


def server(engine: Engine) -> str:
    return engine.url.set(query={}).render_as_string(hide_password=False)
