"""A statement given to the driver as it is says the same as SQLAlchemy's own."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Column, Integer, LargeBinary, MetaData, Table, bindparam, select, text

from controlplane.db.binary_transfer import BINARY_ROWS
from controlplane.db.database import Database
from controlplane.db.driver_statement import DriverStatement

TABLE = Table("driver_statement_test", MetaData(), Column("id", Integer, primary_key=True), Column("data", LargeBinary))
QUERY = (
    select(TABLE.c.id, TABLE.c.data)
    .where(TABLE.c.id <= bindparam("last"), TABLE.c.id >= bindparam("first"), TABLE.c.id != bindparam("last"))
    .order_by(TABLE.c.id)
)
ROWS = [(number, bytes([number, 0, 39])) for number in range(9)]


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: object) -> Iterator[Database]:
    url = f"sqlite:///{tmp_path}/x.db" if request.param == "sqlite" else request.getfixturevalue("postgres_schema_url")
    made = Database(url)
    with made.session() as session:
        TABLE.create(session.connection())
        session.connection().execute(TABLE.insert(), [{"id": number, "data": data} for number, data in ROWS])
    yield made
    made.close()


def test_values_go_by_their_names(database: Database) -> None:
    statement = DriverStatement(QUERY, **BINARY_ROWS)
    with database.engine.connect() as connection:
        for first, last in ((0, 9), (3, 7), (8, 2)):
            given = {"first": first, "last": last}
            found = [(number, bytes(data)) for number, data in statement.run(connection, {**given, "unused": 1})]
            assert found == [(number, bytes(data)) for number, data in connection.execute(QUERY, given)]
            assert found == ROWS[first:last]


def test_it_may_be_text_whose_values_come_again(database: Database) -> None:
    statement = DriverStatement(text(f"SELECT id FROM {TABLE.name} WHERE id = :one OR id = :one + :more ORDER BY id"))
    with database.engine.connect() as connection:
        assert statement.run(connection, {"more": 3, "one": 2}).scalars().all() == [2, 5]


def test_a_value_that_is_missing_is_an_error(database: Database) -> None:
    with database.engine.connect() as connection, pytest.raises(Exception, match="last"):
        DriverStatement(QUERY).run(connection, {"first": 0})
