"""Leases of nodes and trials, as a state machine: whatever workers, delays and silences do, a trial counts once."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from controlplane.contract.errors import Conflict
from controlplane.studies.machine import LEASE_S
from controlplane.studies.trial_lease import MOST_TAKINGS, Hold, Refusal, Taking, Task, is_given_up, refusal, taking

START = datetime(2026, 1, 1, tzinfo=UTC)
WORKERS = st.sampled_from(["a", "b", "c"])


def _hold(token: int = 1, *, heard_s: float = 0.0, ended: bool = False, number: int | None = None) -> Hold:
    return Hold(token, f"w{token}", START + timedelta(seconds=heard_s), ended, number)


def test_a_lease_holds_for_as_long_as_its_worker_is_heard_of() -> None:
    hold = _hold()
    assert hold.holds(START + timedelta(seconds=LEASE_S))
    assert not hold.holds(START + timedelta(seconds=LEASE_S + 1))
    assert not _hold(ended=True).holds(START)


def test_a_trial_is_taken_in_its_turn_again_by_who_has_it_and_over_when_its_worker_was_lost() -> None:
    hold = _hold(2, heard_s=LEASE_S + 1)
    now = hold.heard_at
    assert taking(0, None, hold, 0, now) is Taking.NEW
    with pytest.raises(Conflict, match="the next trial is 3") as wrong:
        taking(5, None, hold, 3, now)
    assert wrong.value.detail["field"] == "number"
    assert taking(0, Task(0, hold), hold, 1, now) is Taking.SAME
    assert taking(0, Task(0, _hold(1, number=0)), hold, 1, now) is Taking.OVER
    live = _hold(1, heard_s=LEASE_S, number=0)
    with pytest.raises(Conflict, match="held by 'w1'"):
        taking(0, Task(0, live), hold, 1, now)
    with pytest.raises(Conflict, match="is measured"):
        taking(0, Task(0, _hold(1), measured=True), hold, 1, now)
    with pytest.raises(Conflict, match="lease 1 has ended") as ended:
        taking(0, None, _hold(1), 0, now)
    assert ended.value.detail["field"] == "token"


def test_why_a_report_does_not_count() -> None:
    hold, now = _hold(number=0), START
    assert refusal(Task(0, hold), hold, study_ended=False, now=now) is None
    assert refusal(Task(0, hold), hold, study_ended=True, now=now) is Refusal.STUDY_ENDED
    assert refusal(None, hold, study_ended=False, now=now) is Refusal.NOT_TAKEN
    late = now + timedelta(seconds=LEASE_S + 1)
    assert refusal(Task(0, hold), hold, study_ended=False, now=late) is Refusal.LEASE_ENDED
    taken_over = Task(0, _hold(2, heard_s=LEASE_S + 1, number=0))
    assert refusal(taken_over, hold, study_ended=False, now=late) is Refusal.LEASE_ENDED


def test_a_trial_that_its_workers_are_lost_with_is_given_up() -> None:
    assert [is_given_up(takings) for takings in (1, MOST_TAKINGS - 1, MOST_TAKINGS)] == [False, False, True]


class Workers(RuleBasedStateMachine):
    """Three workers with a lease each that they know of, a clock, and trials; nobody is told that a lease has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.now = START
        self.tokens = 0
        self.holds: dict[int, Hold] = {}
        self.own: dict[str, int] = {}
        self.trials: dict[int, Task] = {}
        self.believed: dict[str, int] = {}  # What a worker thinks it measures.
        self.counted: list[int] = []

    @rule(worker=WORKERS)
    def takes_a_node(self, worker: str) -> None:
        self.tokens += 1
        self.own[worker] = self.tokens
        self.holds[self.tokens] = Hold(self.tokens, worker, self.now)

    @rule(seconds=st.sampled_from([1.0, 20.0, LEASE_S, LEASE_S + 1]))
    def time_passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    @rule(worker=WORKERS)
    def renews(self, worker: str) -> None:
        token = self.own.get(worker)
        if token is not None and self.holds[token].holds(self.now):
            self._heard(token, self.holds[token].number)

    @rule(worker=WORKERS, number=st.integers(0, 4))
    def takes_a_trial(self, worker: str, number: int) -> None:
        token = self.own.get(worker)
        if token is None:
            return
        found = self.trials.get(number)
        found = None if found is None else self._now(found)
        try:
            how = taking(number, found, self.holds[token], len(self.trials), self.now)
        except Conflict:
            return
        assert found is None or not found.measured
        if how is Taking.OVER:
            assert found is not None
            former = found.hold
            assert not former.holds(self.now) or former.number != number, "two work at one trial"
        self._heard(token, number)
        self.trials[number] = Task(number, self.holds[token])
        self.believed[worker] = number

    @rule(worker=WORKERS)
    def reports(self, worker: str) -> None:
        number, token = self.believed.get(worker), self.own.get(worker)
        if number is None or token is None:
            return
        found = self._now(self.trials[number])
        if found.measured:
            return
        if refusal(found, self.holds[token], study_ended=False, now=self.now) is None:
            self.counted.append(number)
            self.trials[number] = Task(number, found.hold, measured=True)
            assert found.hold.token == token and self.holds[token].holds(self.now)

    @invariant()
    def a_trial_counts_once(self) -> None:
        assert len(self.counted) == len(set(self.counted))

    @invariant()
    def trials_have_no_gaps(self) -> None:
        assert sorted(self.trials) == list(range(len(self.trials)))

    def _heard(self, token: int, number: int | None) -> None:
        hold = self.holds[token]
        self.holds[token] = Hold(token, hold.worker, self.now, hold.ended, number)

    def _now(self, task: Task) -> Task:
        return Task(task.number, self.holds[task.hold.token], task.takings, task.measured)


TestWorkers = Workers.TestCase
