"""What is kept is the slowest of each place, whatever the order, the batches and the repeats."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import groupby

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete

from controlplane.db.database import Database
from controlplane.telemetry.journal import exemplar_store
from controlplane.telemetry.reports.exemplar import KEPT, MINUTE_NS, Exemplar, Place, ranked, slowest
from controlplane.telemetry.tables import ExemplarRow
from controlplane.telemetry.values.timespan import to_ns
from tests.made_tables import create_tables

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = to_ns(START) // MINUTE_NS
EVER = (datetime(1970, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))


def made(value: float, request: str, *, minute: int = 0, pool: str = "chat", bucket: str = "<=128") -> Exemplar:
    return Exemplar(
        minute=MINUTE + minute,
        metric="ttft",
        pool=pool,
        prompt_bucket=bucket,
        value=value,
        time_ns=(MINUTE + minute) * MINUTE_NS + 7,
        node="n1",
        model="m",
        revision=2,
        trace_id="",
        request_id=request,
        arrival_ns=(MINUTE + minute) * MINUTE_NS,
        prompt_tokens=100,
        cached_tokens=0,
        output_tokens=5,
        finish_reason="stop",
        parts=orjson.dumps({"e2e": value, "ttft": value}),
        batch=orjson.dumps({"running": 2}),
    )


@contextmanager
def emptied(database: Database) -> Iterator[None]:
    """For hypothesis: the fixture's database outlives one example."""
    with database.session() as session:
        session.execute(delete(ExemplarRow))
    yield


def kept(database: Database) -> dict[Place, list[tuple[float, str]]]:
    with database.read_session() as session:
        rows = exemplar_store.read(session.connection(), "ttft", *EVER, limit=10_000)
    places = sorted(
        (Place(to_ns(row.time) // MINUTE_NS, row.pool, row.metric, row.prompt_bucket), -row.value, row.request_id)
        for row in rows
    )
    return {place: [(-value, name) for _, value, name in found] for place, found in groupby(places, lambda one: one[0])}


one_exemplar = st.builds(
    made,
    st.integers(1, 30).map(float),
    st.integers(0, 15).map(str),
    minute=st.integers(0, 1),
    pool=st.sampled_from(["chat", "code"]),
    bucket=st.sampled_from(["<=128", ">32k"]),
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(one_exemplar, max_size=12), max_size=8))
def test_the_slowest_stay_whatever_the_order(database: Database, commits: list[list[Exemplar]]) -> None:
    # A request has one value: what is sent again is the same.
    first: dict[tuple[Place, str], Exemplar] = {}
    commits = [[first.setdefault((one.place, one.request_id), one) for one in commit] for commit in commits]
    with emptied(database):
        for commit in [*commits, *commits[::2]]:
            with database.session() as session:
                exemplar_store.keep(session, commit)
        expected = {
            place: [(one.value, one.request_id) for one in ranked(found)]
            for place, found in slowest(first.values()).items()
        }
        assert {place: sorted(found) for place, found in kept(database).items()} == {
            place: sorted(found) for place, found in expected.items()
        }


def test_reading_by_place_value_and_page(database: Database) -> None:
    with database.session() as session:
        given = [made(float(value), f"r{value}") for value in range(1, 4)]
        given += [made(9.0, "other", pool="code"), made(8.0, "long", bucket=">32k"), made(7.0, "later", minute=3)]
        assert exemplar_store.keep(session, given) == 6
    with database.read_session() as session:
        connection = session.connection()

        def read(**asked: object) -> list[str]:
            found = exemplar_store.read(connection, "ttft", START, START + timedelta(minutes=2), **asked)  # type: ignore[arg-type]
            return [one.request_id for one in found]

        assert read() == ["other", "long", "r3", "r2", "r1"]
        assert read(pool="chat", prompt_bucket="<=128", above=1.0) == ["r3", "r2"]
        assert read(limit=2, offset=1) == ["long", "r3"]
        assert read(node="n2") == []
        assert exemplar_store.read(connection, "e2e", *EVER) == []
        (one,) = exemplar_store.read(connection, "ttft", *EVER, above=8.5)
    assert one.arrival == START and one.time == START and one.revision == 2
    assert one.parts == {"e2e": 9.0, "ttft": 9.0} and one.batch == {"running": 2.0}


def test_what_is_too_old_is_dropped(database: Database) -> None:
    with database.session() as session:
        exemplar_store.keep(session, [made(1.0, "old"), made(1.0, "new", minute=30)])
    later = START + timedelta(seconds=exemplar_store.RETENTION_S) + timedelta(minutes=10)
    with database.session() as session:
        assert exemplar_store.drop(session, later) == 1
    assert [name for found in kept(database).values() for _, name in found] == ["new"]


def test_the_same_on_postgresql(postgres_schema_url: str) -> None:
    database = Database(postgres_schema_url)
    create_tables(database)
    try:
        with database.session() as session:
            exemplar_store.keep(session, [made(float(value), f"r{value}") for value in range(10)])
        with database.session() as session:
            exemplar_store.keep(session, [made(100.0, "slow"), made(9.0, "r9")])
        (found,) = kept(database).values()
        assert found == [(100.0, "slow"), (9.0, "r9"), (8.0, "r8"), (7.0, "r7"), (6.0, "r6")] and len(found) == KEPT
    finally:
        database.close()
