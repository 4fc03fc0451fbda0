"""The life of a study in the database: claims, leases, trials, ends."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.studies import (
    StudyCreate,
    StudyFinish,
    StudyHeartbeat,
    StudyResult,
    StudyState,
    StudyVerdict,
)
from controlplane.contract.errors import BadRequest, Conflict, NotFound
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.studies import machine, store
from tests.controlplane.studies.measured_trial import measure

RESULT = StudyResult(
    verdict=StudyVerdict.BETTER,
    winner={"max_num_seqs": 64},
    default={"max_num_seqs": 16},
    improvement=0.4,
    interval=(0.3, 0.5),
    repeats=3,
    summary="64 sequences are 40 % faster",
)


def create(database: Database, spec: StudyCreate, clock: Any) -> int:
    with database.session() as session:
        return store.create(session, spec, actor="ann", now=clock()).id


def claim(database: Database, worker: str, clock: Any) -> int | None:
    with database.session() as session:
        found = store.claim(session, worker, clock())
        return None if found is None else found.id


def test_from_queue_to_result(
    database: Database, spec: StudyCreate, clock: Any, ledger_kinds: Callable[[], list[str]]
) -> None:
    study_id = create(database, spec, clock)
    assert claim(database, "w", clock) == study_id
    with database.session() as session:
        beat = StudyHeartbeat(worker="w", progress="trial 1 of 12", trial_node="t", workload_summary={"requests": 40})
        running = store.heartbeat(session, study_id, beat, clock.pass_s(5))
        assert (running.state, running.trial_node, running.progress) == (StudyState.RUNNING, "t", "trial 1 of 12")
        measure(session, study_id, "w", 0, clock)
        outcome = StudyFinish(worker="w", result=RESULT, rollout_id=4)
        done = store.finish(session, study_id, outcome, clock.pass_s(5))
        assert (done.state, done.trials_done, done.rollout_id, done.result) == (StudyState.FINISHED, 1, 4, RESULT)
        assert store.finish(session, study_id, outcome, clock.pass_s(5)).finished_at == done.finished_at
        with pytest.raises(Conflict):
            store.finish(session, study_id, outcome.model_copy(update={"rollout_id": 5}), clock())
    assert ledger_kinds() == ["study.created", "study.claimed", "study.finished"]


def test_finalist_runs_are_counted_apart_from_the_search(database: Database, spec: StudyCreate, clock: Any) -> None:
    study_id = create(database, spec, clock)
    claim(database, "w", clock)
    with database.session() as session:
        for number, kind in enumerate(["default", "search", "search", "finalist", "finalist"]):
            measure(session, study_id, "w", number, clock, kind=kind)
        found = store.get(session, study_id)
        assert (found.trials_done, found.finalist_runs) == (3, 2)
        listed = store.listing(session, before_id=None, limit=1)[0]
        assert (listed.trials_done, listed.finalist_runs) == (3, 2)


def test_one_study_of_a_pool_runs_at_a_time(database: Database, spec: StudyCreate, clock: Any) -> None:
    first, second = create(database, spec, clock), create(database, spec, clock)
    other = create(database, spec.model_copy(update={"pool": "code"}), clock)
    assert claim(database, "w1", clock) == first
    assert claim(database, "w2", clock) == other
    assert claim(database, "w3", clock) is None
    with database.session() as session:
        assert store.active(session, "chat").id == first  # type: ignore[union-attr]
        store.cancel(session, first, actor="ann", now=clock())
    assert claim(database, "w3", clock) == second


@pytest.mark.parametrize("studies", [1, 2])
def test_racing_workers_never_share(database: Database, spec: StudyCreate, clock: Any, studies: int) -> None:
    for _ in range(studies):
        create(database, spec, clock)
    barrier, claimed = threading.Barrier(4), []

    def work(name: str) -> None:
        barrier.wait()
        claimed.append(claim(database, name, clock))

    workers = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(claimed, key=str) == [1, None, None, None]


def test_a_study_that_loses_its_worker_again_and_again_and_measures_nothing_fails(
    database: Database, spec: StudyCreate, clock: Any, ledger_kinds: Callable[[], list[str]]
) -> None:
    study_id = create(database, spec, clock)
    lost = 0
    for measures in (False, False, True, *(False,) * (machine.MAX_ATTEMPTS - 1), False):
        lost += 1
        assert claim(database, f"w{lost}", clock) == study_id
        with database.session() as session:
            if measures:
                measure(session, study_id, f"w{lost}", 0, clock)
            assert store.expire_leases(session, clock.pass_s(60)) == 0
        with database.session() as session:
            assert store.expire_leases(session, clock.pass_s(1)) == 1
            with pytest.raises(Conflict):
                store.heartbeat(session, study_id, StudyHeartbeat(worker=f"w{lost}"), clock())
    with database.session() as session:
        found = store.get(session, study_id)
        assert found.state is StudyState.FAILED and "the 4th time: given up" in found.error
        assert found.trials_done == 1
    assert ledger_kinds().count("study.requeued") == lost - 1
    assert ledger_kinds()[-1] == "study.failed"


def test_a_claim_finds_an_expired_study_by_itself(database: Database, spec: StudyCreate, clock: Any) -> None:
    study_id = create(database, spec, clock)
    assert claim(database, "w1", clock) == study_id
    clock.pass_s(61)
    assert claim(database, "w2", clock) == study_id


def test_the_wrong_worker_and_the_wrong_state_are_conflicts(database: Database, spec: StudyCreate, clock: Any) -> None:
    study_id = create(database, spec, clock)
    with database.session() as session:
        with pytest.raises(Conflict, match="queued"):
            store.heartbeat(session, study_id, StudyHeartbeat(worker="w"), clock())
        store.claim(session, "w", clock())
        with pytest.raises(Conflict, match="held by 'w'"):
            store.finish(session, study_id, StudyFinish(worker="v", error="no"), clock())
        for outcome in (StudyFinish(worker="w"), StudyFinish(worker="w", result=RESULT, error="no")):
            with pytest.raises(BadRequest, match="exactly one"):
                store.finish(session, study_id, outcome, clock())
        store.finish(session, study_id, StudyFinish(worker="w", error="no trial node"), clock())
        with pytest.raises(Conflict, match="failed study cannot become cancelled"):
            store.cancel(session, study_id, actor="ann", now=clock())
        with pytest.raises(NotFound):
            store.get(session, 99)


def test_the_machine_has_every_state() -> None:
    assert set(machine.TRANSITIONS) == set(StudyState)
    assert {StudyState.FINISHED, StudyState.FAILED, StudyState.CANCELLED} == machine.ENDED


def test_a_study_waits_while_its_pool_is_being_changed(database: Database, spec: StudyCreate, clock: Any) -> None:
    waiting = create(database, spec, clock)
    other = create(database, spec.model_copy(update={"pool": "code"}), clock)
    with database.session() as session:
        found = store.claim(session, "w", clock(), busy={"chat": "rollout 7 (judging)"})
        assert found is not None and found.id == other
    with database.session() as session:
        assert store.claim(session, "w", clock(), busy={"chat": "rollout 7 (judging)"}) is None
        study = store.get(session, waiting)
        assert (study.state, study.progress) == (StudyState.QUEUED, "waits for the end of rollout 7 (judging)")
    assert claim(database, "w", clock) == waiting


def test_a_study_goes_to_a_worker_that_has_its_evaluation(database: Database, spec: StudyCreate, clock: Any) -> None:
    held = create(database, spec.model_copy(update={"evaluation": "mmlu"}), clock)
    later = create(database, spec, clock)

    def claimed(worker: str, *evaluations: str) -> int | None:
        with database.session() as session:
            found = store.claim(session, worker, clock(), evaluations=evaluations)
            return None if found is None else found.id

    assert claimed("without", "gsm8k") == later, "one behind it that wants none"
    with database.session() as session:
        study = store.get(session, held)
        assert (study.state, study.progress) == (
            StudyState.QUEUED,
            "waits for a worker that has the evaluation mmlu; where there is none, start one with "
            "--evaluation mmlu=COMMAND",
        )
        store.finish(session, later, StudyFinish(worker="without", error="x"), clock())
    assert claimed("without") is None
    assert claimed("with", "gsm8k", "mmlu") == held
    again = create(database, spec.model_copy(update={"pool": "code", "evaluation": "mmlu"}), clock)
    assert claim(database, "an older worker, which does not say", clock) == again


def two_revisions(database: Database, clock: Any) -> tuple[int, int]:
    """Numbers; the pool runs the first."""
    with database.session() as session:
        first, second = (
            fleet.create_revision(session, RevisionCreate(knobs={"max_num_seqs": seqs}), "t", clock()).number
            for seqs in (16, 8)
        )
        fleet.set_pool_revision(session, "chat", first, clock())
        return first, second


def test_its_default_is_the_pools_revision_when_it_was_claimed(
    database: Database, spec: StudyCreate, clock: Any
) -> None:
    first, second = two_revisions(database, clock)
    with database.session() as session:
        fleet.set_override(session, ["a"], second, clock())  # What a canary runs is not the pool's.
    study_id = create(database, spec, clock)
    assert claim(database, "w", clock) == study_id
    with database.session() as session:
        fleet.set_pool_revision(session, "chat", second, clock())
    with database.session() as session:
        study = store.get(session, study_id)
        assert (study.default_revision, study.pool_revision) == (first, second)


def test_one_that_goes_on_with_another_worker_keeps_its_default_and_counts_no_waits(
    database: Database, spec: StudyCreate, clock: Any
) -> None:
    first, second = two_revisions(database, clock)
    study_id = create(database, spec, clock)
    claim(database, "w1", clock)
    with database.session() as session:
        beat = StudyHeartbeat(worker="w1", trial_node="t")
        store.heartbeat(session, study_id, beat, clock.pass_s(9))
        assert store.heartbeat(session, study_id, beat, clock.pass_s(3)).active_s == 3.0
        fleet.set_pool_revision(session, "chat", second, clock())
        began_at = store.get(session, study_id).started_at
    clock.pass_s(3600)
    assert claim(database, "w2", clock) == study_id
    with database.session() as session:
        beat = StudyHeartbeat(worker="w2", trial_node="t")
        store.heartbeat(session, study_id, beat, clock.pass_s(30))
        going_on = store.heartbeat(session, study_id, beat, clock.pass_s(4))
        assert (going_on.active_s, going_on.default_revision) == (7.0, first)
        assert going_on.started_at == began_at, "forecasts beside it are of the traffic that it captured"
