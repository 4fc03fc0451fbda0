"""A report counts once, in whatever order its stream arrives and however many replicas get it."""

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from controlplane.contract.reports.packed_report import REMEMBERED
from controlplane.db.database import Database
from controlplane.telemetry.folding.retention import sweeps
from controlplane.telemetry.reports.stream_identity import (
    LENGTH,
    SHORT,
    Recognised,
    Seen,
    Sighting,
    StreamIdentity,
    mark,
    recognise,
)

NOW_NS, HOUR_NS = 1_772_323_200 * 10**9, 3600 * 10**9


class Stream(RuleBasedStateMachine):
    """Beside the digests stands a plain table of everything that was ever counted."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = Seen()
        self.counted: dict[int, bytes] = {}

    def _arrives(self, ordinal: int, says: bytes = b"aa") -> None:
        highest = max(self.counted, default=0)
        sighting, self.seen = mark(self.seen, ordinal, says)
        if ordinal < highest - REMEMBERED:
            assert sighting is Sighting.TOO_OLD
        elif ordinal in self.counted:
            assert sighting is (Sighting.REPEAT if self.counted[ordinal] == says else Sighting.OTHER)
        else:
            assert sighting is Sighting.NEW
            self.counted[ordinal] = says

    @rule(ordinal=st.integers(1, 5000))
    def anywhere(self, ordinal: int) -> None:
        self._arrives(ordinal)

    @rule(step=st.integers(-REMEMBERED - 3, REMEMBERED + 3), says=st.sampled_from([b"aa", b"ab", b"\0a"]))
    def near_the_newest(self, step: int, says: bytes) -> None:
        self._arrives(max(1, self.seen.high + step), says)

    @rule(chosen=st.randoms(use_true_random=False), says=st.sampled_from([b"aa", b"ab"]))
    def again(self, chosen: random.Random, says: bytes) -> None:
        if self.counted:
            self._arrives(chosen.choice(sorted(self.counted)), says)

    @rule(ahead=st.integers(1, 1 << 40))
    def far_ahead(self, ahead: int) -> None:
        self._arrives(min(self.seen.high + ahead, (1 << 63) - 1))

    @rule(edge=st.sampled_from([-REMEMBERED - 1, -REMEMBERED, -REMEMBERED + 1, 0, 1, REMEMBERED, REMEMBERED + 1]))
    def at_an_edge(self, edge: int) -> None:
        self._arrives(max(1, self.seen.high + edge))

    @invariant()
    def fits_its_column(self) -> None:
        assert len(self.seen.digests) <= min(LENGTH, SHORT * self.seen.high)
        assert self.seen.high == max(self.counted, default=0)

    @invariant()
    def its_digests_are_those_of_what_was_counted(self) -> None:
        high, digests = self.seen
        first = high - len(digests) // SHORT + 1
        told = {first + at // SHORT: digests[at : at + SHORT] for at in range(0, len(digests), SHORT)}
        counted = {ordinal: says for ordinal, says in self.counted.items() if high - REMEMBERED <= ordinal}
        assert {ordinal: says for ordinal, says in told.items() if any(says)} == counted


TestStream = Stream.TestCase
TestStream.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)


def of(ordinal: int, stream: int = 0, says: bytes = b"digested", node: str | None = None) -> StreamIdentity:
    return StreamIdentity(bytes([stream]) * 16, ordinal, says, node)


def sightings(database: Database, *reports: StreamIdentity, now_ns: int = NOW_NS) -> list[str]:
    with database.session() as session:
        return [found.sighting.value for found in recognise(session, reports, now_ns)]


def test_streams_are_told_apart_and_remembered_between_transactions(any_database: Database) -> None:
    assert sightings(any_database, of(3), of(1), of(3), of(3, stream=1)) == ["new", "new", "repeat", "new"]
    assert sightings(any_database, of(1), of(2), of(4, stream=1), of(3, stream=1)) == ["repeat", "new", "new", "repeat"]
    with any_database.session() as session:
        assert recognise(session, [of(5000), of(3)], NOW_NS) == [
            Recognised(Sighting.NEW, 5000),
            Recognised(Sighting.TOO_OLD, 5000),
        ]
    assert sightings(any_database, of(5000 - REMEMBERED), of(5000 - REMEMBERED)) == ["new", "repeat"]


def test_one_that_says_something_else_is_no_repeat_and_does_not_take_the_place(any_database: Database) -> None:
    wanted = ["new", "other", "repeat", "other"]
    assert sightings(any_database, of(3), of(3, says=b"another."), of(3), of(3, says=b"another.")) == wanted
    assert sightings(any_database, of(2), of(3, says=b"another."), of(3), of(2)) == ["new", "other", "repeat", "repeat"]


def test_a_digest_that_begins_with_nothing_is_remembered_as_well(any_database: Database) -> None:
    nothing, as_kept = bytes(8), of(1, says=bytes(8)).short
    assert sightings(any_database, of(1, says=nothing), of(2)) == ["new", "new"]
    assert sightings(any_database, of(1, says=nothing), of(1)) == ["repeat", "other"]
    assert any(as_kept)


def test_another_nodes_reports_take_no_place_of_a_stream(any_database: Database) -> None:
    nodes = ("n1", "n2", None)
    assert sightings(any_database, *(of(1, node=node) for node in nodes)) == ["new"] * 3
    assert sightings(any_database, *(of(1, node=node) for node in nodes)) == ["repeat"] * 3
    assert of(1, node="n1").key != of(1, stream=1, node="n1").key


def test_the_most_that_is_remembered_fits_beside_the_other_columns() -> None:
    assert LENGTH + 2 * 8 + 16 + 24 < 2032


def test_what_is_rolled_back_was_not_seen(any_database: Database) -> None:
    class Killed(Exception):
        pass

    try:
        with any_database.session() as session:
            recognise(session, [of(1)], NOW_NS)
            raise Killed
    except Killed:
        pass
    assert sightings(any_database, of(1)) == ["new"]


def test_of_replicas_that_get_a_report_at_once_one_counts_it(any_database: Database) -> None:
    """Each ordinal is offered by all threads at the same moment, the first of a new stream included."""
    threads, rounds = 3, 15
    start = Barrier(threads, timeout=5)

    def replica(_: int) -> list[str]:
        found = []
        for i in range(rounds):
            start.wait()
            found += sightings(any_database, of(1, stream=i), of(i + 1, stream=200))
        return found

    with ThreadPoolExecutor(threads) as pool:
        by_replica = list(pool.map(replica, range(threads)))
    for of_each in zip(*by_replica, strict=True):
        assert sorted(of_each) == ["new", *["repeat"] * (threads - 1)]


def test_streams_not_heard_of_are_forgotten(any_database: Database) -> None:
    sightings(any_database, of(1))
    sightings(any_database, of(1, stream=1), now_ns=NOW_NS + 2 * HOUR_NS)
    for sweep in sweeps():
        sweep.step(any_database, NOW_NS + HOUR_NS)
    assert sightings(any_database, of(1), of(1, stream=1)) == ["new", "repeat"]
