"""Trial nodes held and trials taken in the database, as two workers and a clock meet them."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from controlplane.api.body_examples import EXAMPLES
from controlplane.client import Client
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.studies import (
    RunOrder,
    StudyCreate,
    StudyFinish,
    StudyState,
    TrialReport,
    TrialState,
)
from controlplane.contract.errors import BadRequest, Conflict, NotFound
from controlplane.contract.planning.trial_leases import NodeWanted, StudyPlan, TrialLease, TrialWanted
from controlplane.db.database import Database
from controlplane.studies import lease_store, store
from controlplane.studies.lease_store import Late
from controlplane.studies.meters import LateReports
from controlplane.studies.trial_lease import MOST_TAKINGS, Refusal

KNOBS = {"max_num_seqs": 16}
REPORT = TrialReport(number=0, knobs=KNOBS, state=TrialState.COMPLETE, objective_s=1.0, samples={"e2e": [1.0, 2.0]})


@pytest.fixture
def study_id(database: Database, spec: StudyCreate, clock: Any) -> int:
    with database.session() as session:
        created = store.create(session, spec, actor="ann", now=clock())
        store.claim(session, "w", clock())
    return created.id


def take(database: Database, study_id: int, worker: str, clock: Any, node: str = "t") -> TrialLease:
    with database.session() as session:
        return lease_store.take_node(session, study_id, NodeWanted(worker=worker, node=node), clock())


def test_a_node_is_one_workers_until_it_is_released_or_its_worker_is_silent(
    database: Database, study_id: int, spec: StudyCreate, clock: Any
) -> None:
    killed = take(database, study_id, "w", clock)
    first = take(database, study_id, "w", clock)  # Started again under its name: what is left of it is fenced off.
    assert first.token > killed.token
    with database.session() as session, pytest.raises(Conflict, match=f"lease {killed.token} has ended"):
        lease_store.renew(session, study_id, killed.token, clock())
    with pytest.raises(Conflict, match="t is held for study 1 by 'w'"):
        take(database, study_id, "v", clock)
    with database.session() as session:
        code = store.create(session, spec.model_copy(update={"pool": "code"}), actor="ann", now=clock()).id
    with pytest.raises(Conflict, match="held for study 1"):
        take(database, code, "w", clock)
    assert take(database, code, "w", clock, node="t2").token > first.token
    with database.session() as session:
        lease_store.renew(session, study_id, first.token, clock.pass_s(59))
    clock.pass_s(60)
    with pytest.raises(Conflict):
        take(database, study_id, "v", clock)
    clock.pass_s(1)
    second = take(database, study_id, "v", clock)
    assert second.token > first.token
    with database.session() as session:
        with pytest.raises(Conflict, match=f"lease {first.token} has ended"):
            lease_store.renew(session, study_id, first.token, clock())
        lease_store.release(session, study_id, first.token, clock())  # It is not its node any more.
        assert lease_store.renew(session, study_id, second.token, clock()).ended_at is None
        assert lease_store.release(session, study_id, second.token, clock()).ended_at == clock.now
        with pytest.raises(NotFound):
            lease_store.renew(session, code, second.token, clock())
    assert take(database, study_id, "w", clock).token > second.token


def test_racing_workers_never_hold_one_node(database: Database, study_id: int, clock: Any) -> None:
    barrier, held = threading.Barrier(4), []

    def work(worker: str) -> None:
        barrier.wait()
        try:
            held.append(take(database, study_id, worker, clock).worker)
        except Conflict:
            held.append("")

    workers = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(held)[:3] == ["", "", ""] and sorted(held)[3]


def test_a_trial_goes_on_with_the_next_worker_and_the_late_report_is_refused_and_counted(
    database: Database, study_id: int, clock: Any, ledger_kinds: Callable[[], list[str]]
) -> None:
    lost = take(database, study_id, "w", clock)
    order = RunOrder(heat=2, pair=0, pairs=3, design="interleaved", arm="winner")
    wanted = TrialWanted(number=0, knobs=KNOBS, order=order)
    with database.session() as session:
        running = lease_store.take_trial(session, study_id, lost.token, wanted, clock())
        assert (running.state, running.worker, running.node) == (TrialState.RUNNING, "w", "t")
        assert running.order == order and store.get(session, study_id).trials_done == 0
    with database.session() as session:
        assert lease_store.expire(session, clock.pass_s(61)) == 1
        (waiting,) = lease_store.trials(session, study_id, before_id=None, limit=10)
        assert waiting.state is TrialState.WAITING and waiting.reported_at is None
        assert isinstance(lease_store.report_trial(session, study_id, lost.token, REPORT, clock()), Late)
    found = take(database, study_id, "v", clock, node="t2")
    with database.session() as session:
        again = lease_store.take_trial(session, study_id, found.token, TrialWanted(number=0, knobs={}), clock())
        assert (again.knobs, again.order, again.takings, again.worker) == (KNOBS, order, 2, "v")
        late = lease_store.report_trial(session, study_id, lost.token, REPORT, clock())
        assert isinstance(late, Late) and late.why is Refusal.LEASE_ENDED
        with pytest.raises(BadRequest, match="other knobs"):
            lease_store.report_trial(
                session, study_id, found.token, REPORT.model_copy(update={"knobs": {"max_num_seqs": 1}}), clock()
            )
        kept = lease_store.report_trial(session, study_id, found.token, REPORT, clock())
        assert not isinstance(kept, Late) and (kept.state, kept.node) == (TrialState.COMPLETE, "t2")
        assert lease_store.report_trial(session, study_id, found.token, REPORT, clock()) == kept
        with pytest.raises(Conflict, match="other content"):
            lease_store.report_trial(
                session, study_id, found.token, REPORT.model_copy(update={"objective_s": 2.0}), clock()
            )
        with pytest.raises(Conflict, match="is measured"):
            lease_store.take_trial(session, study_id, found.token, wanted, clock())
    assert ledger_kinds().count("study.trial_lost") == 1
    registry = CollectorRegistry()
    LateReports(registry).note(late)
    counted = registry.get_sample_value("tailwright_trial_reports_refused_total", {"reason": "lease_ended"})
    assert counted == 1


def test_single_values_are_shown_where_they_are_asked_for_while_the_study_goes_on(
    database: Database, study_id: int, clock: Any
) -> None:
    lease = take(database, study_id, "w", clock)
    with database.session() as session:
        wanted = TrialWanted(number=0, kind="finalist", knobs=KNOBS)
        lease_store.take_trial(session, study_id, lease.token, wanted, clock())
        lease_store.report_trial(
            session, study_id, lease.token, REPORT.model_copy(update={"kind": "finalist"}), clock()
        )
        (plain,) = lease_store.trials(session, study_id, before_id=None, limit=10)
        (full,) = lease_store.trials(session, study_id, before_id=None, limit=10, samples=True)
        assert plain.samples == {} and full.samples == {"e2e": [1.0, 2.0]}
        store.finish(session, study_id, StudyFinish(worker="w", error="no"), clock())
        (ended,) = lease_store.trials(session, study_id, before_id=None, limit=10, samples=True)
        assert ended.samples == {} and ended.objective_s == 1.0


def test_a_trial_that_workers_are_lost_with_is_given_up(database: Database, study_id: int, clock: Any) -> None:
    for taking in range(1, MOST_TAKINGS + 1):
        lease = take(database, study_id, f"w{taking}", clock)
        with database.session() as session:
            lease_store.take_trial(session, study_id, lease.token, TrialWanted(number=0, knobs=KNOBS), clock())
        with database.session() as session:
            lease_store.expire(session, clock.pass_s(61))
            (trial,) = lease_store.trials(session, study_id, before_id=None, limit=10)
            assert trial.takings == taking
            assert trial.state is (TrialState.FAILED if taking == MOST_TAKINGS else TrialState.WAITING)
    assert "the 4th with this trial: given up" in trial.error


def test_nothing_is_taken_or_counted_for_a_study_that_has_ended(database: Database, study_id: int, clock: Any) -> None:
    lease = take(database, study_id, "w", clock)
    with database.session() as session:
        lease_store.take_trial(session, study_id, lease.token, TrialWanted(number=0, knobs=KNOBS), clock())
        store.finish(session, study_id, StudyFinish(worker="w", error="no"), clock())
        late = lease_store.report_trial(session, study_id, lease.token, REPORT, clock())
        assert isinstance(late, Late) and late.why is Refusal.STUDY_ENDED
        with pytest.raises(Conflict, match="is failed"):
            lease_store.take_trial(session, study_id, lease.token, TrialWanted(number=1, knobs=KNOBS), clock())
        with pytest.raises(Conflict, match="is failed"):
            lease_store.take_node(session, study_id, NodeWanted(worker="w", node="t2"), clock())
        # Its worker still tidies the node, which nobody else gets meanwhile.
        assert lease_store.renew(session, study_id, lease.token, clock()).study_state is StudyState.FAILED
        assert lease_store.trials(session, study_id, before_id=None, limit=10) == []


def test_the_first_plan_is_kept(client: Callable[[Scope], Client], spec: StudyCreate) -> None:
    person = client(Scope.OPERATE)
    study = person.create_study(spec)
    with pytest.raises(NotFound, match="has no plan yet"):
        person.study_plan(study.id)
    plan = EXAMPLES["StudyPlan"]["what a study replays"]
    assert isinstance(plan, StudyPlan)
    with pytest.raises(Conflict):
        person.keep_study_plan(study.id, "w", plan)
    person.claim_study("w")
    assert person.keep_study_plan(study.id, "w", plan) == plan
    assert person.keep_study_plan(study.id, "w", plan.model_copy(update={"serving": 7})) == plan
    assert person.study_plan(study.id) == plan


def test_a_late_report_is_a_conflict_over_http(client: Callable[[Scope], Client], spec: StudyCreate, app: Any) -> None:
    person = client(Scope.OPERATE)
    study = person.create_study(spec)
    person.claim_study("w")
    lease = person.take_trial_node(study.id, NodeWanted(worker="w", node="t"))
    person.take_trial(study.id, lease.token, TrialWanted(number=0, knobs=KNOBS))
    person.release_trial_node(study.id, lease.token)
    noted: list[Late] = []
    app.state.service.late_reports.note = noted.append
    with pytest.raises(Conflict) as late:
        person.report_trial(study.id, lease.token, REPORT)
    assert late.value.detail == {"field": "token", "reason": "lease_ended"} and len(noted) == 1
    with pytest.raises(Conflict) as gone:
        person.renew_trial_lease(study.id, lease.token)
    assert gone.value.detail["field"] == "token"
    assert [trial.state for trial in person.trials(study.id)] == [TrialState.WAITING]
