"""Bytes travel as bytes, and mean the same."""

from collections.abc import Iterator

import pytest
from psycopg import pq
from sqlalchemy import LargeBinary, bindparam, text
from sqlalchemy.dialects.postgresql import ARRAY

from controlplane.db.binary_transfer import BINARY_ROWS
from controlplane.db.database import Database

ROW = text("SELECT '\\x00ff27'::bytea, 2::bigint, -3, 1.5::float8, 'é'::text, NULL::bytea, true")
VALUES = (b"\x00\xff'", 2, -3, 1.5, "é", None, True)


@pytest.fixture
def database(postgres_schema_url: str) -> Iterator[Database]:
    made = Database(postgres_schema_url)
    yield made
    made.close()


@pytest.mark.parametrize("options", [{}, {"yield_per": 1}])
def test_rows_come_in_binary_where_that_is_asked_for(database: Database, options: dict[str, int]) -> None:
    with database.engine.connect() as connection:
        for wanted, form in ((BINARY_ROWS, pq.Format.BINARY), ({}, pq.Format.TEXT)):
            found = connection.execute(ROW.execution_options(**wanted, **options))
            assert found.cursor is not None
            assert getattr(found.cursor, "format") == form  # noqa: B009 - the driver's own
            assert found.all() == [VALUES]


def test_arrays_of_bytes_arrive_as_they_are(database: Database) -> None:
    values = [b"", b"\0\xff", b'{"\\,}', b"x" * 5000]
    query = text("SELECT unnest(:given)").bindparams(bindparam("given", type_=ARRAY(LargeBinary)))
    with database.engine.connect() as connection:
        assert [bytes(one) for one in connection.execute(query, {"given": values}).scalars()] == values
