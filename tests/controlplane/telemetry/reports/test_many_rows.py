"""Many rows in one statement say the same as one statement for each, on both databases."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import Table, event, select
from sqlmodel import Session, SQLModel

from controlplane.db.database import Database
from controlplane.telemetry.reports import many_rows

STREAMS: Table = SQLModel.metadata.tables["telemetry_stream"]
SEEN: Table = SQLModel.metadata.tables["telemetry_seen"]
SMALLEST, LARGEST = -(2**63), 2**63 - 1
Stored = dict[bytes, tuple[int, bytes]]


def stream(name: bytes, high: int, digests: bytes = b"") -> dict[str, object]:
    return {"stream": name, "high": high, "digests": digests, "heard_ns": 1}


def stored(session: Session) -> Stored:
    query = select(STREAMS.c.stream, STREAMS.c.high, STREAMS.c.digests)
    return {bytes(name): (high, bytes(digests)) for name, high, digests in session.execute(query).all()}


def test_what_is_there_stays_and_what_is_missing_is_made(any_database: Database) -> None:
    with any_database.session() as session:
        many_rows.insert_missing(session, STREAMS, [stream(b"a", 1), stream(b"b", 2)])
        many_rows.insert_missing(session, STREAMS, [stream(b"c", 3), stream(b"a", 9)])
        assert stored(session) == {b"a": (1, b""), b"b": (2, b""), b"c": (3, b"")}


def test_nothing_is_no_statement(any_database: Database) -> None:
    with any_database.session() as session:
        many_rows.insert_missing(session, STREAMS, [])
        assert stored(session) == {}


def test_rows_are_set_by_all_columns_of_their_key(any_database: Database) -> None:
    spans = [(1, -7, 1), (1, -7, 2), (1, 8, 1), (2, -7, 1)]
    rows = [dict(zip(("end_ns", "resource", "start_ns"), span, strict=True)) | {"hashes": b""} for span in spans]
    with any_database.session() as session:
        many_rows.insert_missing(session, SEEN, rows)
        many_rows.set_by_key(session, SEEN, [rows[1] | {"hashes": b"x"}, rows[3] | {"hashes": b"y\0'{,\\"}])
        query = select(SEEN.c.hashes).order_by(SEEN.c.end_ns, SEEN.c.resource, SEEN.c.start_ns)
        assert [bytes(found) for found in session.execute(query).scalars()] == [b"", b"x", b"", b"y\0'{,\\"]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(
            st.booleans(),
            st.dictionaries(
                st.binary(max_size=3), st.tuples(st.integers(SMALLEST, LARGEST), st.binary(max_size=200)), min_size=1
            ),
        ),
        max_size=4,
    )
)
def test_any_inserts_and_changes_leave_what_they_say(
    any_database: Database,
    steps: list[tuple[bool, Stored]],
) -> None:
    expected: Stored = {}
    with any_database.session() as session:
        for makes, rows in steps:
            given_rows = [stream(name, *values) for name, values in rows.items()]
            if makes:
                many_rows.insert_missing(session, STREAMS, given_rows)
                expected = rows | expected
            else:
                many_rows.set_by_key(session, STREAMS, given_rows)
                expected |= {name: values for name, values in rows.items() if name in expected}
        assert stored(session) == expected
        session.rollback()


@pytest.mark.parametrize("rows", [1, 300])
def test_postgresql_is_told_once_however_many(postgres_schema_url: str, rows: int) -> None:
    database = Database(postgres_schema_url)
    STREAMS.create(database.engine)
    said: list[bool] = []
    event.listen(database.engine, "before_cursor_execute", lambda *told: said.append(told[-1]))
    with database.session() as session:
        many = [stream(number.to_bytes(2, "big"), number) for number in range(rows)]
        many_rows.insert_missing(session, STREAMS, many)
        many_rows.insert_or_lock(session, STREAMS, many)
        many_rows.set_by_key(session, STREAMS, many)
    assert said == [False] * 3
    database.close()
