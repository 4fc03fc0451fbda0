"""A schema that one test leaves to the next is as it was when it had just been made; in another form it is not left."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, text

from controlplane.db.database import Database
from controlplane.ledger import store as ledger
from tests import kept_schemas
from tests.controlplane.db.test_made_tables import COLUMNS, CONSTRAINTS, INDEXES
from tests.made_tables import migrate
from tests.postgresql import GIVEN

pytestmark = pytest.mark.skipif(GIVEN in os.environ, reason="nothing is kept on a server of somebody's")

NOW = datetime(2030, 1, 1, tzinfo=UTC)
CONTENT = (
    *(COLUMNS, CONSTRAINTS, INDEXES),
    "SELECT (SELECT count(*) FROM ledger), (SELECT count(*) FROM event)",
    "SELECT * FROM ledger_head, alembic_version",
    "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = current_schema() ORDER BY 1",
)
Use = Callable[[], AbstractContextManager[Database]]


@pytest.fixture
def use(postgres_url: str, postgres_server: Engine) -> Use:
    """A test's time with a schema of its own, from empty to given back."""

    @contextmanager
    def used() -> Iterator[Database]:
        schema = f"test_{secrets.token_hex(6)}"
        with postgres_server.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA {schema}"))
        made = Database(f"{postgres_url}{'&' if '?' in postgres_url else '?'}options=-csearch_path%3D{schema}")
        try:
            migrate(made)
            yield made
        finally:
            made.close()
            kept_schemas.give_back(postgres_server, schema)

    return used


def number(database: Database) -> int:
    """The same in the same schema, whatever that is called now."""
    with database.engine.connect() as connection:
        return int(connection.execute(text("SELECT CAST('ledger' AS regclass)::oid")).scalar_one())


def content(database: Database) -> list[Any]:
    with database.engine.connect() as connection:
        return [connection.execute(text(query)).all() for query in CONTENT]


def test_what_a_test_writes_no_other_finds(use: Use) -> None:
    with use() as first:
        known, made = number(first), content(first)
        with first.session() as session:
            ledger.append(session, NOW, "tester", "study.created", "study/1", "A row that nothing may remove.")
        with first.engine.connect() as connection:  # Nothing of it is committed; the number is gone.
            connection.execute(text("SELECT nextval(pg_get_serial_sequence('event', 'id'))"))
        assert content(first) != made
    with use() as second:
        assert number(second) == known and content(second) == made


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE event ADD COLUMN more INTEGER",
        "CREATE TABLE more (number INTEGER)",
        "CREATE INDEX more ON event (kind)",
        "DROP TRIGGER ledger_no_change ON ledger",
        "GRANT SELECT ON event TO PUBLIC",
    ],
)
def test_one_whose_form_has_changed_is_dropped(use: Use, change: str) -> None:
    with use() as first:
        known = number(first)
        with first.engine.begin() as connection:
            connection.execute(text(change))
    with use() as second:
        assert number(second) != known
        with second.engine.connect() as connection:
            assert connection.execute(text("SELECT to_regclass('more')")).scalar_one() is None
            assert connection.execute(text("SELECT count(*) FROM pg_class WHERE oid = :n"), {"n": known}).scalar() == 0
