"""A point counts once, whatever batches it comes in and however many replicas get it."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine
from sqlmodel import Session, SQLModel

from controlplane.db.database import Database
from controlplane.telemetry.folding.forgetting import drop_older
from controlplane.telemetry.reports.repeat import PointIdentities, first_seen

Point = tuple[int, int, int, int]
"""resource, start_ns, end_ns, key."""


def identities(points: Sequence[Point]) -> PointIdentities:
    return PointIdentities(*np.array(points, np.int64).reshape(len(points), 4).T)


def seen(database: Database, *points: Point) -> list[bool]:
    with database.session() as session:
        return first_seen(session, identities(points)).tolist()  # type: ignore[no-any-return]


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(
        st.lists(st.tuples(*[st.integers(0, 2)] * 3, st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)])), max_size=12),
        max_size=6,
    )
)
def test_as_a_set_of_all_points_says(batches: list[list[Point]]) -> None:
    engine = create_engine("sqlite://")
    SQLModel.metadata.tables["telemetry_seen"].create(engine)
    known: set[Point] = set()
    with Session(engine) as session:
        for points in batches:
            expected = []
            for point in points:
                expected.append(point not in known)
                known.add(point)
            assert first_seen(session, identities(points)).tolist() == expected


def test_of_replicas_that_get_a_point_at_once_one_counts_it(any_database: Database) -> None:
    threads, rounds = 3, 15
    start = Barrier(threads, timeout=60)

    def replica(_: int) -> list[bool]:
        found = []
        for i in range(rounds):
            start.wait()
            found += seen(any_database, (1, 0, i, 7), (2, 0, 5, i))
        return found

    with ThreadPoolExecutor(threads) as pool:
        by_replica = list(pool.map(replica, range(threads)))
    assert [sum(of_each) for of_each in zip(*by_replica, strict=True)] == [1] * (2 * rounds)


def test_what_ended_long_ago_is_forgotten(any_database: Database) -> None:
    assert seen(any_database, (1, 0, 10, 7), (1, 0, 20, 7)) == [True, True]
    drop_older(any_database, SQLModel.metadata.tables["telemetry_seen"], "end_ns", 20)
    assert seen(any_database, (1, 0, 10, 7), (1, 0, 20, 7)) == [True, False]
