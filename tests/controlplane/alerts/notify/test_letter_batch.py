"""Letters on their way: each is handed out once, the first alone, and none after one that says to stop."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from controlplane.alerts.channels.channel import Letter, Outcome, Status
from controlplane.alerts.notify.letter_batch import ABREAST, RECORDED_AFTER, SLOW_S, Batch
from controlplane.alerts.notify.one_attempt import DEADLINE_S, Attempt
from controlplane.alerts.notify.outbox_queue import Done, Lease
from controlplane.alerts.notify.pacing import OUTAGE
from controlplane.contract.channels.destination_kinds import DestinationKind

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
SENT, FAILED = Attempt(), Attempt(Outcome.RETRY, "answered 503")


def leases(count: int, *, failures: int = 0, lasts_s: float = 30.0) -> list[Lease]:
    until = NOW + timedelta(seconds=lasts_s)
    letters = [Letter(n, DestinationKind.WEBHOOK, Status.FIRING, f"f{n}", "{}", f"k{n}") for n in range(count)]
    return [Lease(letter, 1, None, None, None, 1, until, failures) for letter in letters]


def batch_of(count: int, *, closing: bool = False, **kwargs: float) -> Batch:
    return Batch(leases(count, **kwargs), lambda: NOW, lambda: closing)  # type: ignore[arg-type]


def tried(batch: Batch, attempt: Attempt, took_s: float = 0.0) -> list[Done]:
    lease = batch.next()
    assert lease is not None
    return batch.note(Done(lease, attempt, NOW), took_s)


@pytest.mark.parametrize(("count", "helpers"), [(1, 0), (3, 0), (4, 1), (10, 4), (20, ABREAST - 1), (100, ABREAST - 1)])
def test_the_more_there_are_the_more_go_abreast_once_the_first_was_taken(count: int, helpers: int) -> None:
    batch = batch_of(count)
    tried(batch, SENT)
    assert batch.helpers == helpers
    failing = batch_of(count)
    tried(failing, FAILED)
    assert failing.helpers == 0


def test_after_a_failure_they_go_one_by_one_until_one_is_taken() -> None:
    batch = batch_of(20)
    tried(batch, FAILED)
    assert batch.next(helping=True) is None
    tried(batch, SENT)
    assert batch.next(helping=True) is not None


@pytest.mark.parametrize(
    "attempts",
    [
        [(FAILED, 0.0)] * OUTAGE,
        [(Attempt(Outcome.RETRY, "answered 429", 5.0), 0.0)],
        [(FAILED, SLOW_S)],
    ],
)
def test_none_follows_one_that_says_to_stop(attempts: list[tuple[Attempt, float]]) -> None:
    batch = batch_of(20)
    noted = [tried(batch, attempt, took_s) for attempt, took_s in attempts]
    assert len(noted[-1]) == len(attempts), "what came of it is written at once"
    assert batch.next() is None and len(batch.untried()) == 20 - len(attempts) and batch.helpers == 0


def test_a_letter_that_is_refused_stops_nothing() -> None:
    batch = batch_of(20)
    for _ in range(OUTAGE + 2):
        tried(batch, Attempt(Outcome.REFUSED, "answered 400"), SLOW_S)
    assert batch.next() is not None


def test_what_was_sent_is_written_after_so_many_and_the_rest_at_the_end() -> None:
    batch = batch_of(RECORDED_AFTER + 3)
    written = [len(tried(batch, SENT)) for _ in range(RECORDED_AFTER + 3)]
    assert sum(written) + len(batch.unwritten()) == RECORDED_AFTER + 3
    assert batch.unwritten() == [] and batch.untried() == []


def test_a_lease_that_could_run_out_under_way_and_a_service_that_closes_begin_nothing() -> None:
    late = batch_of(5, lasts_s=DEADLINE_S - 1)
    assert late.next() is None and len(late.untried()) == 5
    closing = batch_of(5, closing=True)
    assert closing.next() is None and len(closing.untried()) == 5


def test_many_threads_take_each_letter_once() -> None:
    batch, taken, lock = batch_of(500), list[int](), threading.Lock()

    def work() -> None:
        while (lease := batch.next(helping=True)) is not None:
            with lock:
                taken.append(lease.letter.delivery_id)
            batch.note(Done(lease, SENT, NOW), 0.0)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(500))


def test_an_error_of_our_own_ends_it() -> None:
    batch = batch_of(5)
    first, second = ValueError("first"), ValueError("second")
    batch.fail(first)
    batch.fail(second)
    assert batch.error is first and batch.next() is None and len(batch.untried()) == 5
