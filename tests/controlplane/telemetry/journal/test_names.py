"""Every name has one id, whoever made it; beyond the limits single points are refused, and what is gone is no more
counted."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

import numpy as np
import pytest

from controlplane.contract import metrics
from controlplane.contract.metrics import MetricKind
from controlplane.db.database import Database
from controlplane.telemetry.journal import label_use
from controlplane.telemetry.journal.name_rows import BLOCK_NODES
from controlplane.telemetry.journal.names import REFUSED, Names, Resolved
from controlplane.telemetry.otlp.labels import canonical
from controlplane.telemetry.values.columns import Table
from controlplane.telemetry.values.timespan import to_ns

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = timedelta(days=1)
TTFT = (metrics.TTFT.name, MetricKind.HISTOGRAM)
OWN = ("tailwright.own", MetricKind.GAUGE)


def table(*sets: dict[str, str], names: Sequence[tuple[str, MetricKind]] = (TTFT,)) -> Table:
    return Table(tuple(names), tuple(canonical(labels) for labels in sets))


def resolve(database: Database, names: Names, *tables: Table, now: datetime = NOW) -> list[Resolved]:
    with database.session() as session:
        found = names.resolve(session, tables, now)
    names.learn(found.learnt)
    return found.of


def ids(*numbers: int) -> Any:
    return np.array(numbers, np.int32)


def test_equal_names_have_equal_ids_in_any_table_and_replica(any_database: Database) -> None:
    names, other = Names(), Names()
    a, b = {"node": "a", "model": "m"}, {"node": "b", "model": "m"}
    first, second = resolve(any_database, names, table(a, b, names=[TTFT, OWN]), table(b, a, b, names=[OWN]))
    assert first.labels.tolist() == second.labels.tolist()[1::-1] == second.labels[[1, 2]].tolist()
    assert (
        first.metric.tolist() == [names.metric_id(*TTFT), names.metric_id(*OWN)] and second.metric[0] == first.metric[1]
    )
    (again,) = resolve(any_database, other, table(a, b, {"model": "m"}, names=[OWN, (OWN[0], MetricKind.SUM)]))
    assert again.labels[:2].tolist() == first.labels.tolist()
    assert again.metric[0] == second.metric[0] and again.metric[1] not in first.metric.tolist()
    assert names.metrics() == {TTFT, OWN} and len(names) == 3 and len(other) == 3


def test_label_sets_know_their_fleet_set_and_their_block(any_database: Database) -> None:
    names, other = Names(), Names()
    sets = [{"node": f"n{i}", "model": "m"} for i in range(BLOCK_NODES + 2)] + [{"model": "m"}, {"node": "n0"}]
    (found,) = resolve(any_database, names, table(*sets))
    with any_database.snapshot() as connection:
        for reader in (names, other):
            fleet, blocks = reader.fleet(connection, found.labels), reader.blocks(connection, found.labels)
            assert set(fleet[:-1].tolist()) == {int(found.labels[-2])} and fleet[-1] != fleet[0]
            assert sorted(blocks[:-2].tolist()) == [0] * BLOCK_NODES + [1] * 2
            assert blocks[-2] == 0 and blocks[-1] == blocks[0]
            assert reader.labels(connection, fleet.tolist()) == {int(fleet[0]): {"model": "m"}, int(fleet[-1]): {}}
            assert reader.labels(connection, [int(found.labels[1])]) == {int(found.labels[1]): sets[1]}
        assert other.blocks_of_nodes(connection, ["n0", "never heard of"]) == {int(blocks[0])}
        assert other.blocks_of_nodes(connection, []) == set()
        with pytest.raises(LookupError, match=r"\[4000\]"):
            names.fleet(connection, ids(int(found.labels[0]), 4000))


def test_what_is_rolled_back_leaves_nothing_in_memory(any_database: Database) -> None:
    names, given = Names(), table({"node": "a"})

    class Killed(Exception):
        pass

    with pytest.raises(Killed):
        with any_database.session() as session:
            names.resolve(session, [given], NOW)
            raise Killed
    assert names.metrics() == set() and len(names) == 0
    (found,) = resolve(any_database, names, given)
    assert REFUSED not in found.labels


def test_load_takes_in_what_another_replica_has_made(any_database: Database) -> None:
    names, other = Names(), Names()
    resolve(any_database, names, table({"node": "a"}))
    for made in ({"node": "b"}, {"node": "c"}):
        resolve(any_database, names, table(made, names=[OWN]))
        with any_database.snapshot() as connection:
            other.load(connection)
        assert len(other) == len(names) and other.metrics() == names.metrics()


def test_beyond_the_total_a_set_is_refused_and_known_ones_are_not(any_database: Database) -> None:
    names = Names(max_label_sets=3)
    (found,) = resolve(any_database, names, table(*({"node": f"n{i}"} for i in range(4))))
    assert (found.labels == REFUSED).tolist() == [False, False, False, True]
    (again,) = resolve(any_database, names, table({"node": "n9"}, {"node": "n1"}, {}))
    assert again.labels.tolist()[:2] == [REFUSED, found.labels[1]] and again.labels[2] != REFUSED
    why = names.why_refused(table({"node": "n9"}), Resolved(ids(1), ids(REFUSED)), 0, 0)
    assert why == "over 3 distinct label sets; take labels with fewer values"


def test_one_tenant_cannot_take_all_the_room(any_database: Database) -> None:
    names = Names(max_per_tenant=3)
    of_a = [{"tenant": "a", "model": f"m{i}"} for i in range(5)]
    given = table(*of_a, {"tenant": "b"}, {"model": "m"})
    (found,) = resolve(any_database, names, given)
    assert (found.labels == REFUSED).tolist() == [False] * 3 + [True] * 2 + [False] * 2
    why = names.why_refused(given, found, 0, 4)
    assert why == "over 2000000 distinct label sets, or 3 of tenant 'a'; take labels with fewer values"
    restarted = Names(max_per_tenant=3)
    with any_database.snapshot() as connection:
        restarted.load(connection)
    (found,) = resolve(
        any_database, restarted, table({"tenant": "a", "model": "new"}, of_a[0], {"tenant": "b", "model": "1"})
    )
    assert (found.labels == REFUSED).tolist() == [True, False, False]


def test_senders_own_metrics_are_bounded_and_the_contracts_are_not(any_database: Database) -> None:
    names = Names(max_own_metrics=2)
    own = [(f"tailwright.own.{i}", MetricKind.GAUGE) for i in range(3)]
    given = table({}, names=[*own, TTFT])
    (found,) = resolve(any_database, names, given)
    assert (found.metric == REFUSED).tolist() == [False, False, True, False]
    assert names.why_refused(given, found, 2, 0).startswith("tailwright.own.2: over 2 metric names of senders' own")
    (again,) = resolve(any_database, names, table({}, names=[own[0], ("tailwright.other", MetricKind.SUM)]))
    assert again.metric.tolist() == [found.metric[0], REFUSED]


def test_replicas_that_meet_the_same_new_names_at_once_agree(any_database: Database) -> None:
    replicas = [Names() for _ in range(3)]
    start = Barrier(len(replicas), timeout=60)

    def meet(names: Names) -> list[list[int]]:
        found = []
        for i in range(8):
            # Each replica has some names of its own beside the common ones, so that the orders of keys interleave.
            mine = {"node": f"{replicas.index(names)}", "model": f"m{i}"}
            given = table(
                {"node": "n", "model": f"m{i}"}, mine, {"model": f"m{i}"}, names=[TTFT, (f"tailwright.{i}", OWN[1])]
            )
            start.wait()
            (one,) = resolve(any_database, names, given)
            found.append([*one.metric.tolist(), one.labels[0], one.labels[2]])
        return found

    with ThreadPoolExecutor(len(replicas)) as pool:
        first, *others = pool.map(meet, replicas)
    assert all(other == first for other in others) and REFUSED not in np.array(first)


def forgotten(database: Database, before: datetime, *replicas: Names) -> int:
    found = label_use.forget(database, to_ns(before))
    for names in replicas:
        with database.read_session() as session:
            names.load(session.connection())
            names.forget(session, to_ns(before))
    return found


def test_sets_that_are_no_longer_used_are_forgotten_and_make_room(any_database: Database) -> None:
    names = Names(max_label_sets=6, max_per_tenant=2)
    given = table({"node": "a", "tenant": "t"}, {"node": "b"})
    (found,) = resolve(any_database, names, given)
    assert len(names) == 4 and names.metrics() == {TTFT}
    kept = table({"node": "b"})
    resolve(any_database, names, kept, now=NOW + 3 * DAY)
    resolve(any_database, names, table({"node": "b", "model": "newest"}), now=NOW + 3 * DAY)
    assert forgotten(any_database, NOW + DAY, names) == 1, "the fleet set outlives what belonged to it by a day"
    assert forgotten(any_database, NOW + 3 * DAY, names) == 1 and len(names) == 4
    later = table({"node": "c", "tenant": "t"}, {"node": "b"})
    (again,) = resolve(any_database, names, later, now=NOW + 3 * DAY)
    assert REFUSED not in again.labels and again.labels[1] == found.labels[1]
    assert not set(again.labels.tolist()) & {int(found.labels[0])}, "an id is never used twice"
    with any_database.snapshot() as connection:
        assert names.labels(connection, [int(again.labels[0])]) == {int(again.labels[0]): {"node": "c", "tenant": "t"}}
        for look in (names.fleet, Names().fleet):
            with pytest.raises(LookupError):
                look(connection, found.labels[:1])


def test_a_set_that_comes_back_after_another_replica_forgot_it_has_an_id_again(any_database: Database) -> None:
    names, other = Names(), Names()
    given, fleet = table({"node": "a", "model": "m"}), {"model": "m"}
    (found,) = resolve(any_database, names, given)
    resolve(any_database, other, table({"node": "z"}), now=NOW + 9 * DAY)
    assert forgotten(any_database, NOW + 8 * DAY, other) == 2
    (again,) = resolve(any_database, names, given, now=NOW + 9 * DAY)
    assert again.labels[0] not in (REFUSED, found.labels[0])
    with any_database.snapshot() as connection:
        number = names.fleet(connection, again.labels)
        assert names.labels(connection, number.tolist()) == {int(number[0]): fleet}
    assert forgotten(any_database, NOW + 8 * DAY, names, other) == 0
    assert len(names) == len(other) == 4, "two and the fleet sets of both"
    (known,) = resolve(any_database, names, given, now=NOW + 9 * DAY)
    assert known is again


def test_what_is_used_stays_whichever_replica_uses_it(any_database: Database) -> None:
    names, other = Names(), Names()
    given = table({"node": "a"}, {"model": "m"})
    (found,) = resolve(any_database, names, given)
    for day in range(1, 6):
        now = NOW + day * DAY
        (again,) = resolve(any_database, other, given, now=now)
        assert again.labels.tolist() == found.labels.tolist()
        assert forgotten(any_database, now - label_use.KNOWN_FOR_S * timedelta(seconds=1), names, other) == 0
    assert len(names) == len(other) == 3
    with any_database.snapshot() as connection:
        assert names.labels(connection, found.labels.tolist()) != {}


def test_a_mark_is_renewed_once_it_is_old_and_not_with_every_report(any_database: Database) -> None:
    names, given = Names(), table({"node": "a"})
    (first,) = resolve(any_database, names, given)
    hour = timedelta(hours=1)
    marks = []
    for hours in range(0, 49):
        (found,) = resolve(any_database, names, given, now=NOW + hours * hour)
        with any_database.read_session() as session:
            ((number, used_ns),) = label_use.marks(session, first.labels.tolist()).items()
        marks.append(used_ns)
        assert to_ns(NOW + hours * hour) - used_ns < label_use.KNOWN_FOR_S * label_use.NS
        assert found.labels.tolist() == [number]
    assert 3 <= len(set(marks)) <= 5


def test_who_marks_and_who_forgets_at_once_leave_every_set_with_its_fleet_set(any_database: Database) -> None:
    """Sets that come back in the moment when they go: whoever wins, each has an id that is there."""
    sets = [{"node": f"n{i}", "model": f"m{i % 7}"} for i in range(60)]
    resolve(any_database, Names(), table(*sets))
    resolve(any_database, Names(), table({"node": "newest"}), now=NOW + 9 * DAY)
    start = Barrier(3, timeout=60)

    def use(order: int) -> Resolved:
        names = Names()
        with any_database.snapshot() as connection:
            names.load(connection)
        start.wait()
        (found,) = resolve(any_database, names, table(*sets[::order]), now=NOW + 9 * DAY)
        return found

    def sweep() -> int:
        start.wait()
        return label_use.forget(any_database, to_ns(NOW + 8 * DAY), at_once=5)

    with ThreadPoolExecutor(3) as pool:
        forward, backward, swept = pool.submit(use, 1), pool.submit(use, -1), pool.submit(sweep)
        found, other = forward.result(), backward.result()
        assert swept.result() >= 0
    assert found.labels.tolist() == other.labels.tolist()[::-1] and REFUSED not in found.labels
    with any_database.snapshot() as connection:
        fresh = Names()
        fleet = fresh.fleet(connection, found.labels)
        told = fresh.labels(connection, [*found.labels.tolist(), *fleet.tolist()])
    assert [told[int(number)] for number in found.labels] == sets
    assert [told[int(number)] for number in fleet] == [{"model": one["model"]} for one in sets]
