"""A study in production over real rollouts, whose services are new at each tick: as if killed in between."""

from datetime import timedelta

import pytest

from controlplane.contract.bodies.rollouts import OnInconclusive, RolloutCreate, RolloutPhase, Verdict
from controlplane.contract.bodies.studies import StudyCreate, StudyState, StudyVerdict
from controlplane.contract.knobs import NUM_SPECULATIVE_TOKENS, ChangeClass
from controlplane.contract.on_call.rollout_policies import FreezeCreate, RolloutPolicyCreate
from controlplane.contract.reports.declared_knobs import DeclaredKnob
from controlplane.fleet import store as fleet
from controlplane.incidents.tables import IncidentRow
from controlplane.rollouts import steering
from controlplane.rollouts import store as rollouts
from controlplane.rollouts.policies import store as policies
from controlplane.studies import store as studies
from tests.controlplane.app.online.online_world import SEQS, SPEC, OnlineWorld

pytestmark = pytest.mark.slow

FLAT = {4: 1.0, 8: 1.0, 16: 1.0, 32: 1.0}
on_both = pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)


@on_both
def test_it_walks_to_the_best_value_keeps_it_and_ends(world: OnlineWorld) -> None:
    world.prepare()
    study = world.ask(constraints=[{"metric": "e2e", "q": 0.99, "limit_s": 60}])
    assert study.progress == "waits for its first step"
    ended = world.run(study)
    assert world.tried(study.id) == [(8, "better"), (16, "better"), (32, "worse")]
    assert world.production() == 16 and set(world.fleet.running().values()) == {world.fleet.production()}
    assert ended.state is StudyState.FINISHED and ended.trials_done == 3 and ended.worker is None
    result = ended.result
    assert result is not None and result.verdict is StudyVerdict.BETTER
    assert result.winner is not None and result.winner[SEQS] == 16 and result.default[SEQS] == 4
    assert result.summary == (
        "2 of 3 steps were better, 1 went back for harm or doubt: the pool runs max_num_seqs from 4 to 16. "
        "It has ended: nothing is left to try one step from what runs."
    )
    assert ended.rollout_id == world.listed()[1].id
    first = world.listed()[0]
    assert first.spec.reason == f"study {study.id} (asked for by ann), step 1 in production: max_num_seqs from 4 to 8"
    assert (first.spec.study_id, first.spec.study_step, first.created_by) == (study.id, 1, "tailwright")
    assert (first.spec.objective, first.spec.on_inconclusive) == ("e2e", OnInconclusive.ROLL_BACK)
    assert [limit.limit_s for limit in first.spec.limits] == [60]
    step = world.trials(study.id)[0].step
    assert step is not None and (step.rollout_id, step.verdict) == (first.id, Verdict.BETTER)
    assert step.control_s is not None and step.control_s > 1
    assert world.told("study.step_ended") == [
        "step 1, max_num_seqs from 4 to 8: better, so it stays",
        "step 2, max_num_seqs from 8 to 16: better, so it stays",
        "step 3, max_num_seqs from 16 to 32: worse, so it went back",
    ]
    assert world.poked == 3


def test_what_the_pool_runs_of_declared_knobs_stays(world: OnlineWorld) -> None:
    blocks = DeclaredKnob(change_class=ChangeClass.RESTART, start=16, values=(16, 32))
    world.fleet.declared = {"block_size": blocks.model_dump(mode="json")}
    world.prepare()
    world.fleet.put_in_production(world.revision(**{SEQS: 4, "block_size": 32}))
    world.pass_s(120)
    study = world.ask(max_trials=3)
    world.run(study)
    assert world.tried(study.id) == [(8, "better"), (16, "better"), (32, "worse")]
    number = world.fleet.production()
    assert number is not None
    with world.database.session() as session:
        assert fleet.revision(session, number).knobs.knobs()["block_size"] == 32


def test_what_is_only_not_worse_goes_back(world: OnlineWorld) -> None:
    world.prepare(runs=8, slower=FLAT)
    study = world.ask(rollout={**SPEC["rollout"], "max_judge_s": 300})
    ended = world.run(study)
    assert world.tried(study.id) == [(16, "safe"), (4, "safe")]
    assert world.production() == 8
    assert ended.result is not None and ended.result.verdict is StudyVerdict.NOT_BETTER and ended.result.winner is None
    assert ended.result.summary.startswith("Keep what runs now: none of 2 steps was better. It has ended: nothing")
    assert all(one.phase is RolloutPhase.ROLLED_BACK and one.verdict is Verdict.NOT_WORSE for one in world.listed())
    assert all("not worse, but not shown to be better within 300 s" in one.message for one in world.listed())


def test_what_its_traffic_does_not_decide_goes_back_and_counts(world: OnlineWorld) -> None:
    world.prepare(runs=8, slower=FLAT)
    study = world.ask(rollout={**SPEC["rollout"], "tolerance": 0.05, "max_judge_s": 60}, online={"max_taken_back": 2})
    ended = world.run(study)
    assert world.tried(study.id) == [(16, "inconclusive"), (4, "inconclusive")] and world.production() == 8
    assert ended.result is not None and "2 steps were taken back" in ended.result.summary


def test_the_budget_ends_it(world: OnlineWorld) -> None:
    world.prepare(runs=8, slower={4: 3.0, 8: 1.0, 16: 3.0})
    study = world.ask(online={"max_taken_back": 1})
    ended = world.run(study)
    assert world.tried(study.id) == [(16, "worse")]
    assert ended.result is not None and "1 step was taken back" in ended.result.summary


def test_a_pool_of_one_node_is_held_against_its_own_past(world: OnlineWorld) -> None:
    world.prepare("a")
    study = world.ask()
    world.run(study)
    assert world.tried(study.id)[:2] == [(8, "better"), (16, "better")]
    assert all(one.evidence["control"] == "before" for one in world.listed())
    assert world.production() == 16


def test_cancelling_takes_back_what_is_under_way(world: OnlineWorld) -> None:
    world.prepare()
    study = world.ask()
    world.until(lambda: RolloutPhase.JUDGING in [one.phase for one in world.listed()])
    with world.database.session() as session:
        cancelled = studies.cancel(session, study.id, actor="bob", now=world.now)
    assert cancelled.state is StudyState.CANCELLED
    world.tick()
    assert world.listed()[0].phase is RolloutPhase.ROLLING_BACK
    world.pass_s(10)
    assert world.production() == 4 and set(world.fleet.running().values()) == {world.fleet.production()}
    assert world.tried(study.id) == [(8, "stopped")]
    name = f"study {study.id}, step 1 in production (max_num_seqs from 4 to 8)"
    assert world.told("study.step_taken_back") == [f"{name} is taken back: study {study.id} is cancelled"]
    world.pass_s(60)
    assert len(world.listed()) == 1 and world.read(study.id).result is None


def test_an_open_incident_takes_its_step_back_and_pauses_it(world: OnlineWorld) -> None:
    world.prepare()
    study = world.ask()
    world.until(lambda: RolloutPhase.JUDGING in [one.phase for one in world.listed()])
    with world.database.session() as session:
        row = IncidentRow(
            state="open",
            severity="page",
            title="slow",
            pool="chat",
            group_key={},
            onset_at=world.now,
            opened_at=world.now,
        )
        session.add(row)
    world.tick()
    assert world.listed()[0].phase is RolloutPhase.ROLLING_BACK
    world.pass_s(60)
    assert world.tried(study.id) == [(8, "stopped")] and world.production() == 4
    assert world.read(study.id).progress == f"waits: incident {row.id} of pool chat is open"
    assert len(world.listed()) == 1
    with world.database.session() as session:
        session.get_one(IncidentRow, row.id).state = "resolved"
    ended = world.run(study)
    assert ended.state is StudyState.FINISHED and ended.result is not None
    assert "1 went back for harm or doubt" in ended.result.summary  # And 8 is not tried again.


def test_no_step_begins_beside_others_or_out_of_hours(world: OnlineWorld) -> None:
    world.prepare()
    hours = {"days": ["sat"], "opens": "13:00", "closes": "14:00"}
    study = world.ask(online={"hours": hours})  # It is Saturday, a minute or two after twelve.
    with world.database.session() as session:
        window = FreezeCreate(starts_at=world.now, ends_at=world.at(7200), reason="sale")
        frozen = policies.freeze(session, window, actor="ann", now=world.now)
        other = studies.create(session, StudyCreate(pool="chat"), actor="ann", now=world.now)
    world.pass_s(10)
    assert world.read(study.id).progress == "waits: steps begin sat from 13:00 to 14:00 (UTC) only"
    world.now += timedelta(seconds=3600)
    world.tick()
    assert world.read(study.id).progress.startswith(f"waits: freeze {frozen.id} holds every pool until")
    with world.database.session() as session:
        policies.lift(session, frozen.id, actor="ann", now=world.now)
        taken = studies.claim(session, "worker", world.now)
        assert taken is not None and taken.id == other.id
    world.tick()
    assert world.read(study.id).progress == f"waits: for the end of study {other.id} on a trial node"
    with world.database.session() as session:
        studies.cancel(session, other.id, actor="ann", now=world.now)
        policies.set_policy(session, RolloutPolicyCreate(pool="chat", needs_approval=True), actor="ann", now=world.now)
    world.tick()
    assert "wants each rollout approved" in world.read(study.id).progress
    with world.database.session() as session:
        policies.set_policy(session, RolloutPolicyCreate(pool="chat"), actor="ann", now=world.now)
    spec = RolloutCreate(pool="chat", revision=world.fleet.revision(32))
    with world.database.session() as session:
        theirs = rollouts.create(session, spec, actor="bob", now=world.now)
    world.tick()
    assert world.read(study.id).progress == f"waits: for the end of rollout {theirs.id} (canary)"
    with world.database.session() as session:
        steering.abort(session, theirs.id, actor="bob", now=world.now)
    world.until(lambda: len(world.listed()) == 2, most_s=30)
    assert world.listed()[1].spec.study_step == 1


def test_it_ends_where_somebody_else_has_changed_the_pool(world: OnlineWorld) -> None:
    world.prepare()
    study = world.ask()
    world.until(lambda: [one.phase for one in world.listed()[1:]] == [RolloutPhase.JUDGING])
    with world.database.session() as session:
        steering.abort(session, world.listed()[1].id, actor="bob", now=world.now)
    theirs = world.revision(max_num_seqs=32)
    world.pass_s(10)
    world.fleet.put_in_production(theirs)
    ended = world.run(study, most_s=60)
    assert world.tried(study.id) == [(8, "better"), (16, "stopped")]
    assert ended.result is not None and ended.result.summary.endswith(
        f"It has ended: somebody else has put revision {theirs} in production in pool chat."
    )


def test_time_ends_it_between_two_steps(world: OnlineWorld) -> None:
    world.prepare()
    study = world.ask(max_duration_s=30)
    ended = world.run(study)
    assert world.tried(study.id) == [(8, "better")]  # The step under way comes to its own end.
    assert ended.result is not None and "s are over" in ended.result.summary


def test_a_pool_that_cannot_take_a_step_is_waited_for(world: OnlineWorld) -> None:
    world.prepare()
    study = world.ask()
    for node in ("a", "b"):
        world.fleet.change(node, healthy=False)
    world.pass_s(10)
    assert world.read(study.id).progress.startswith("waits: pool: 'chat' has no connected, healthy serving node")
    assert world.listed() == [] and world.trials(study.id) == []
    for node in ("a", "b"):
        world.fleet.change(node, healthy=True)
    world.pass_s(5)
    assert [one.spec.study_step for one in world.listed()] == [1]


def test_a_step_that_its_nodes_refuse_counts_as_taken_back(world: OnlineWorld) -> None:
    """Told by the checks of a rollout, not found out by a canary."""
    world.prepare()
    study = world.ask(rollout={**SPEC["rollout"], "max_blast": {"nodes": 1}}, online={"max_taken_back": 1})
    world.pass_s(10)
    ended = world.read(study.id)
    assert ended.state is StudyState.FINISHED and world.listed() == []
    assert world.tried(study.id) == [(8, "stopped")]
    step = world.trials(study.id)[0].step
    assert step is not None and step.rollout_id is None and "max_blast" in step.message


def test_nodes_that_could_not_be_brought_back_fail_it(world: OnlineWorld) -> None:
    world.prepare(slower={4: 1.0, 8: 5.0})
    study = world.ask(rollout={**SPEC["rollout"], "apply_timeout_s": 30})
    world.until(lambda: RolloutPhase.JUDGING in [one.phase for one in world.listed()])
    canary = world.listed()[0].canary_nodes[0]
    world.fleet.stuck.add(canary)
    ended = world.run(study)
    assert ended.state is StudyState.FAILED and "a person has to look" in ended.error


def test_nodes_that_cannot_change_live_are_waited_for(world: OnlineWorld) -> None:
    world.prepare()
    study = world.ask(space={NUM_SPECULATIVE_TOKENS: {"choices": [0, 2]}})
    with world.database.session() as session:
        from controlplane.fleet.tables import NodeRow

        row = session.get_one(NodeRow, "b")
        row.effective = {**(row.effective or {}), "change_classes": {NUM_SPECULATIVE_TOKENS: "restart"}}
        session.add(row)
    world.now += timedelta(seconds=5)
    world.tick()
    world.tick()
    told = world.read(study.id).progress
    assert told.startswith("waits: space.num_speculative_tokens: changing it takes a restart of node b")
    assert world.listed() == []
