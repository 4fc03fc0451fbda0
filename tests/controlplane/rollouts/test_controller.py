"""The controller against the real registry, with a fresh controller for every tick: as if killed in between."""

import threading
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from controlplane.contract.bodies.rollouts import ENDED, Rollout, RolloutCreate, RolloutPhase, Verdict
from controlplane.contract.errors import BadRequest, Conflict
from controlplane.rollouts import steering, store
from controlplane.rollouts.controller import RolloutController
from controlplane.rollouts.judging.arms import window_ceiling
from controlplane.rollouts.judging.judge import Judge

pytestmark = pytest.mark.slow

OLD, NEW = 16, 64
Spec = dict[str, Any]
TAKE_BACK: Spec = {"min_judge_s": 15}
on_both = pytest.mark.parametrize("database", ["sqlite", "postgresql"], indirect=True)
SPEC: Spec = {"pool": "chat", "metrics": ["ttft", "itl", "e2e"], "min_judge_s": 30, "max_judge_s": 600}


class Stage:
    """A pool of two, history behind it, and the means to let time pass."""

    def __init__(self, fleet: Any, telemetry: Any, start: datetime) -> None:
        self.fleet, self.telemetry, self.now = fleet, telemetry, start
        self.poked = 0
        self.old = self.new = 0

    def prepare(self, *nodes: str, history_s: int = 120) -> None:
        self.fleet.add(*(nodes or ("a", "b")))
        self.old, self.new = self.fleet.revision(OLD), self.fleet.revision(NEW)
        self.fleet.put_in_production(self.old)
        views = self.fleet.views()
        for _ in range(history_s // 5):
            self.fleet.serve(self.now, views=views)
            self.now += timedelta(seconds=5)

    def create(self, **changes: Any) -> Rollout:
        with self.fleet.database.session() as session:
            spec = RolloutCreate.model_validate({**SPEC, "revision": self.new, **changes})
            return store.create(session, spec, actor="ann", now=self.now)

    def read(self, rollout_id: int) -> Rollout:
        with self.fleet.database.session() as session:
            return store.get(session, rollout_id)

    def tick(self) -> None:
        def poke() -> None:
            self.poked += 1

        RolloutController(self.fleet.database, self.telemetry, poke).tick(self.now)

    def run(self, rollout_id: int, *, seconds: int = 1200, serve: bool = True, labelled: bool = True) -> Rollout:
        """Until the end or the time is up: nodes apply, traffic flows, and the controller is a new one each tick."""
        for _ in range(seconds // 5):
            self.fleet.apply()
            if serve:
                self.fleet.serve(self.now, labelled=labelled)
            self.now += timedelta(seconds=5)
            self.tick()
            self.tick()  # A repeated tick must change nothing.
            rollout = self.read(rollout_id)
            if rollout.phase in ENDED:
                return rollout
        return self.read(rollout_id)

    def until(self, rollout_id: int, phase: RolloutPhase) -> Rollout:
        for _ in range(200):
            if self.read(rollout_id).phase is phase:
                return self.read(rollout_id)
            self.run(rollout_id, seconds=5)
        raise AssertionError(f"never {phase}: {self.read(rollout_id)}")


@pytest.fixture
def stage(fleet: Any, telemetry: Any, start: datetime) -> Stage:
    return Stage(fleet, telemetry, start)


@on_both
def test_a_much_faster_canary_is_better_and_promoted(stage: Stage, ledger_kinds: Callable[[], list[str]]) -> None:
    stage.prepare()
    stage.fleet.factor = {stage.old: 5.0}
    stage.telemetry.points.clear()
    for _ in range(24):
        stage.fleet.serve(stage.now)
        stage.now += timedelta(seconds=5)
    rollout = stage.create()
    assert (rollout.phase, rollout.canary_nodes, rollout.control_nodes) == (RolloutPhase.CANARY, ["a"], ["b"])
    assert rollout.previous_revision == stage.old
    judging = stage.until(rollout.id, RolloutPhase.JUDGING)
    promoting = stage.until(rollout.id, RolloutPhase.PROMOTING)
    assert judging.judging_since is not None
    assert (stage.now - judging.judging_since).total_seconds() <= 60
    assert promoting.verdict is Verdict.BETTER
    ended = stage.run(rollout.id)
    assert (ended.phase, ended.verdict) == (RolloutPhase.PROMOTED, Verdict.BETTER), ended.message
    assert stage.fleet.running() == {"a": stage.new, "b": stage.new}
    assert stage.fleet.production() == stage.new
    ttft = ended.evidence["metrics"]["ttft"]
    assert ttft["finding"] == "faster"
    assert ttft["canary"]["p99"] < ttft["control"]["p99"] / 3
    assert ended.evidence["control"] == "concurrent"
    assert ledger_kinds() == [
        f"rollout.{verb}" for verb in ("created", "started", "canary", "judging", "promoting", "judging", "promoted")
    ]
    assert stage.poked == 4


@on_both
def test_a_slower_canary_is_worse_and_rolled_back(stage: Stage, ledger_kinds: Callable[[], list[str]]) -> None:
    stage.prepare(history_s=300)
    stage.fleet.factor = {stage.new: 1.5}
    ended = stage.run(stage.create().id)
    assert (ended.phase, ended.verdict) == (RolloutPhase.ROLLED_BACK, Verdict.WORSE), ended.message
    assert ended.judging_since is not None and ended.ended_at is not None
    assert (ended.ended_at - ended.judging_since).total_seconds() <= 120
    assert stage.fleet.running() == {"a": stage.old, "b": stage.old}
    assert stage.fleet.production() == stage.old
    assert ledger_kinds()[-2:] == ["rollout.rolling_back", "rollout.rolled_back"]


def test_an_equal_canary_is_not_worse(stage: Stage) -> None:
    stage.prepare(history_s=300)
    ended = stage.run(stage.create(tolerance=0.3).id)
    assert (ended.phase, ended.verdict) == (RolloutPhase.PROMOTED, Verdict.NOT_WORSE), ended.message


def test_without_labels_of_revisions_nodes_and_time_tell_the_arms_apart(stage: Stage) -> None:
    stage.prepare()
    stage.fleet.factor = {stage.new: 3.0}
    ended = stage.run(stage.create().id, labelled=False)
    assert ended.verdict is Verdict.WORSE


def test_failing_requests_are_worse_however_fast(stage: Stage) -> None:
    stage.prepare()
    stage.fleet.factor, stage.fleet.error_share = {stage.new: 0.95}, {stage.new: 0.5}
    ended = stage.run(stage.create().id)
    assert (ended.phase, ended.verdict) == (RolloutPhase.ROLLED_BACK, Verdict.WORSE)
    assert ended.evidence["served"]["finding"] == "worse"


@pytest.mark.parametrize("reason", ["shed", "timeout", "refused", "disconnect", "error"])
@pytest.mark.parametrize("nodes", [("a", "b"), ("a",)], ids=["two nodes", "before"])
def test_a_canary_that_loses_its_slowest_third_is_worse_within_a_minute(
    stage: Stage, nodes: tuple[str, ...], reason: str
) -> None:
    stage.prepare(*nodes, history_s=300)
    stage.fleet.lost_slowest = {stage.new: (reason, 0.3)}
    ended = stage.run(stage.create(min_judge_s=60).id)
    assert (ended.phase, ended.verdict) == (RolloutPhase.ROLLED_BACK, Verdict.WORSE), ended.message
    assert ended.judging_since is not None and ended.ended_at is not None
    assert (ended.ended_at - ended.judging_since).total_seconds() <= 60
    served = ended.evidence["served"]
    assert served["finding"] == "worse" and set(served["canary"]["reasons"]) == {reason}
    assert served["control"]["share"] == 1.0 > served["canary"]["share"]


def test_requests_that_clients_leave_are_not_held_against_the_canary(stage: Stage) -> None:
    stage.prepare(history_s=300)
    stage.fleet.lost_slowest = {stage.new: ("abort", 0.3)}
    rollout = stage.create(max_judge_s=120)
    ended = stage.run(rollout.id)
    assert ended.evidence["served"]["canary"]["lost"] == 0
    assert ended.evidence["served"]["finding"] == "undecided"


def bad_change(stage: Stage, *, served_s: int = 60, labelled: bool = True) -> tuple[int, int]:
    """The pool runs `new`, by an emergency, five times slower than `old` was; its rollout and the target before."""
    stage.prepare(history_s=600)
    stage.fleet.factor = {stage.new: 5.0}
    rollout = stage.create(emergency=True, reason="a hot fix")
    stage.until(rollout.id, RolloutPhase.PROMOTED)
    for _ in range(served_s // 5):
        stage.fleet.serve(stage.now, rate=2.0, labelled=labelled)
        stage.now += timedelta(seconds=5)
    return stage.old, stage.new


@pytest.mark.parametrize("labelled", [True, False])
def test_a_bad_change_is_taken_back_within_a_minute(stage: Stage, labelled: bool) -> None:
    good, bad = bad_change(stage, labelled=labelled)
    rollout = stage.create(revision=good, takes_back=bad, **TAKE_BACK)
    for _ in range(60):
        stage.fleet.apply()
        stage.fleet.serve(stage.now, rate=2.0, labelled=labelled)
        stage.now += timedelta(seconds=5)
        stage.tick()
    ended = stage.read(rollout.id)
    assert (ended.phase, ended.verdict) == (RolloutPhase.PROMOTED, Verdict.BETTER), ended.message
    assert ended.started_at is not None and ended.ended_at is not None
    assert (ended.ended_at - ended.started_at).total_seconds() <= 75
    assert stage.fleet.running() == {"a": good, "b": good}


def test_edges_come_from_the_revision_in_force(stage: Stage) -> None:
    good, bad = bad_change(stage, labelled=False)
    rollout = stage.create(revision=good, takes_back=bad, metrics=["e2e"], **TAKE_BACK)
    stage.until(rollout.id, RolloutPhase.JUDGING)
    stage.run(rollout.id, seconds=20, labelled=False)
    edges = stage.read(rollout.id).evidence["metrics"]["e2e"]["edges_s"]["all"]
    assert edges[0] > 3.0  # The bad revision's median is 5 s, the good one's 1 s, of which there is ten times as much.


def test_an_undecided_take_back_leaves_what_runs_and_tells_a_person_what_to_do(stage: Stage) -> None:
    good, bad = bad_change(stage)
    stage.fleet.factor = {}
    rollout = stage.create(revision=good, takes_back=bad, max_judge_s=30, **TAKE_BACK)
    stage.until(rollout.id, RolloutPhase.JUDGING)
    ended = stage.run(rollout.id, serve=False)
    assert (ended.phase, ended.verdict) == (RolloutPhase.ROLLED_BACK, Verdict.INCONCLUSIVE)
    assert f"revision {bad} was not taken back" in ended.message and "emergency" in ended.message
    assert stage.fleet.production() == bad


def test_what_does_not_serve_cannot_be_taken_back(stage: Stage) -> None:
    stage.prepare()
    with pytest.raises(Conflict, match="nothing to take back"):
        stage.create(takes_back=stage.new)


def test_a_proposal_says_what_it_will_be_judged_by(stage: Stage) -> None:
    stage.prepare()
    plan = stage.create(start=False).plan
    assert plan is not None and [one.metric for one in plan.compared] == SPEC["metrics"]
    assert any(line.startswith("itl at p99") for line in plan.says)


def test_the_ledger_and_the_end_say_what_others_need(stage: Stage, ledger: Callable[[], list[Any]]) -> None:
    stage.prepare(history_s=300)
    stage.fleet.factor = {stage.new: 3.0}
    ended = stage.run(stage.create().id)
    for entry in ledger():
        told = entry.evidence
        assert (told["pool"], told["revision"], told["emergency"]) == ("chat", stage.new, False)
        assert {"previous_revision", "verdict", "takes_back", "told_nodes"} <= told.keys()
    effect = ledger()[-1].evidence["effect"]
    assert effect["e2e"]["canary"]["p50"] > 2 * effect["e2e"]["control"]["p50"]
    assert ended.evidence["nodes_at_end"]["a"]["revision"] == stage.old
    assert ended.evidence["nodes_at_end"]["a"]["knobs"]["max_num_seqs"] == OLD


def test_no_traffic_is_inconclusive_and_goes_back_where_that_is_the_policy(stage: Stage) -> None:
    stage.prepare()
    rollout = stage.create(max_judge_s=60, on_inconclusive="roll_back")
    stage.until(rollout.id, RolloutPhase.JUDGING)
    ended = stage.run(rollout.id, serve=False)
    assert (ended.phase, ended.verdict) == (RolloutPhase.ROLLED_BACK, Verdict.INCONCLUSIVE)
    assert stage.fleet.production() == stage.old


def test_an_undecided_canary_is_held_and_told_until_a_person_aborts_it(stage: Stage, ledger: Any) -> None:
    stage.prepare()
    rollout = stage.create(max_judge_s=60)
    stage.until(rollout.id, RolloutPhase.JUDGING)
    held = stage.run(rollout.id, seconds=300, serve=False)
    assert (held.phase, held.verdict, held.resumes) == (RolloutPhase.PAUSED, Verdict.INCONCLUSIVE, RolloutPhase.JUDGING)
    assert "held for a person to decide" in held.message and held.until is None
    assert (ledger()[-1].kind, ledger()[-1].message) == ("rollout.paused", held.message)
    assert stage.fleet.running()["a"] == stage.new
    with stage.fleet.database.session() as session:
        steering.resume(session, rollout.id, actor="ann", now=stage.now)
    again = stage.read(rollout.id)
    assert (again.phase, again.judging_since) == (RolloutPhase.JUDGING, held.judging_since), "it is judged on"
    with stage.fleet.database.session() as session:
        steering.abort(session, rollout.id, actor="ann", now=stage.now)
    assert stage.run(rollout.id).phase is RolloutPhase.ROLLED_BACK


def test_harm_takes_back_what_is_paused(stage: Stage) -> None:
    stage.prepare()
    rollout = stage.create()
    stage.until(rollout.id, RolloutPhase.JUDGING)
    with stage.fleet.database.session() as session:
        steering.pause(session, rollout.id, actor="ann", now=stage.now)
    stage.fleet.factor[stage.new] = 2.0
    ended = stage.run(rollout.id)
    assert (ended.phase, ended.verdict) == (RolloutPhase.ROLLED_BACK, Verdict.WORSE), ended.message


def test_stages_soak_and_a_validation_are_gone_through(stage: Stage) -> None:
    stage.prepare()
    with stage.fleet.database.session() as session:
        spec = RolloutCreate.model_validate({**SPEC, "revision": stage.new, "soak_s": 20, "tolerance": 0.3})
        rollout = store.create(session, spec, actor="ann", now=stage.now, validates=True)
    assert (rollout.phase, rollout.told_nodes) == (RolloutPhase.VALIDATING, [])
    seen = {stage.until(rollout.id, phase).phase for phase in (RolloutPhase.CANARY, RolloutPhase.SOAKING)}
    assert seen
    validated = stage.read(rollout.id).evidence["validated"]
    told = {(one["field"], one["refuses"]) for found in validated.values() for one in found}
    assert told == {("effective.memory", False)}, "all is live there; its nodes do not tell their memory, no more"
    ended = stage.run(rollout.id)
    assert ended.phase is RolloutPhase.PROMOTED, ended.message


def test_what_validation_finds_ends_it_before_a_node_is_told(stage: Stage) -> None:
    stage.prepare()
    with stage.fleet.database.session() as session:
        spec = RolloutCreate.model_validate({**SPEC, "revision": stage.new})
        rollout = store.create(session, spec, actor="ann", now=stage.now, validates=True)
    # Its engine was started anew, for less, after the proposal was looked at.
    runs = {"revision": stage.old, "knobs": {"max_num_seqs": OLD}, "limits": {"max_num_seqs": 32}}
    stage.fleet.change("b", effective={**runs, "sources": {}})
    stage.tick()
    ended = stage.read(rollout.id)
    assert (ended.phase, ended.told_nodes) == (RolloutPhase.FAILED, [])
    (sentence,) = ended.evidence["findings"]
    assert sentence == "b: knobs.max_num_seqs: 64 is above 32, its limit; at most 32, or start its engine with more"
    assert sentence in ended.message
    assert ended.evidence["validated"]["b"][0]["field"] == "knobs.max_num_seqs"
    assert stage.fleet.production() == stage.old and stage.fleet.running() == {"a": stage.old, "b": stage.old}


def test_a_node_that_does_not_say_what_it_runs_is_waited_for(stage: Stage) -> None:
    stage.prepare()
    stage.fleet.change("b", effective=None)
    stage.fleet.stuck.add("b")
    with stage.fleet.database.session() as session:
        spec = RolloutCreate.model_validate({**SPEC, "revision": stage.new, "apply_timeout_s": 30})
        rollout = store.create(session, spec, actor="ann", now=stage.now, validates=True)
    assert stage.run(rollout.id, seconds=20).phase is RolloutPhase.VALIDATING
    ended = stage.run(rollout.id)
    assert (ended.phase, ended.told_nodes) == (RolloutPhase.FAILED, [])
    assert ended.message.startswith("b: effective: what it runs was not heard within 30 s")


def test_every_window_is_judged_once(stage: Stage) -> None:
    stage.prepare()
    rollout = stage.create(max_judge_s=120, tolerance=0.0, on_inconclusive="roll_back")
    stage.until(rollout.id, RolloutPhase.JUDGING)
    stage.telemetry.asked.clear()
    stage.until(rollout.id, RolloutPhase.ROLLED_BACK)
    judged = [(one.span.start, one.span.end) for one in stage.telemetry.asked if one.metric == "ttft"]
    live = sorted({span for span in judged if (span[1] - span[0]).total_seconds() < 600})
    assert all(one[1] == other[0] for one, other in pairwise(live))
    assert len([span for span in judged if span in live]) == 2 * len(live)  # One query for each arm.


def test_an_echo_is_no_confirmation(stage: Stage) -> None:
    stage.prepare()
    stage.fleet.echoing.add("a")
    rollout = stage.create(apply_timeout_s=30)
    assert stage.run(rollout.id, seconds=25).phase is RolloutPhase.CANARY
    stage.fleet.echoing.clear()
    stage.fleet.stuck.add("a")
    ended = stage.run(rollout.id)
    assert ended.phase is RolloutPhase.ROLLED_BACK
    assert ended.judging_since is None
    assert stage.fleet.running() == {"a": stage.old, "b": stage.old}


def test_a_canary_that_cannot_apply_is_rolled_back_at_once(stage: Stage) -> None:
    stage.prepare()
    stage.fleet.failing.add("a")
    rollout = stage.create()
    began = stage.now
    ended = stage.run(rollout.id)
    assert ended.phase is RolloutPhase.ROLLED_BACK
    assert (stage.now - began).total_seconds() <= 15


@pytest.mark.parametrize("trouble", ["unhealthy", "disconnected", "restarted"])
def test_a_canary_in_trouble_while_judged_goes_back(stage: Stage, trouble: str) -> None:
    stage.prepare()
    rollout = stage.create()
    stage.until(rollout.id, RolloutPhase.JUDGING)
    if trouble == "unhealthy":
        stage.fleet.change("a", healthy=False, health_detail="no steps for 30 s")
    elif trouble == "disconnected":
        stage.fleet.change("a", connected=False)
    else:
        stage.fleet.change("a", effective={"revision": 0, "knobs": {"max_num_seqs": 32}, "sources": {}})
        stage.fleet.stuck.add("a")
    back = stage.until(rollout.id, RolloutPhase.ROLLING_BACK)
    assert back.verdict is Verdict.INCONCLUSIVE
    assert "canary node a" in back.message
    assert "no steps for 30 s" in back.message or trouble != "unhealthy"
    stage.fleet.change("a", healthy=True, connected=True)
    stage.fleet.stuck.clear()
    assert stage.run(rollout.id).phase is RolloutPhase.ROLLED_BACK


def test_a_short_disconnection_is_forgiven(stage: Stage) -> None:
    stage.prepare()
    rollout = stage.create()
    stage.until(rollout.id, RolloutPhase.JUDGING)
    stage.fleet.change("a", connected=False)
    assert stage.run(rollout.id, seconds=10).phase is RolloutPhase.JUDGING
    stage.fleet.change("a", connected=True)
    stage.run(rollout.id, seconds=30)
    assert stage.read(rollout.id).phase is not RolloutPhase.ROLLING_BACK


@pytest.mark.parametrize("phase", [RolloutPhase.CANARY, RolloutPhase.JUDGING, RolloutPhase.ROLLING_BACK])
def test_a_long_absence_of_the_service_changes_nothing(stage: Stage, phase: RolloutPhase) -> None:
    stage.prepare()
    rollout = stage.create(max_judge_s=120, tolerance=0.0, on_inconclusive="roll_back")
    stage.until(rollout.id, phase)
    stage.fleet.change("a", connected=False)
    stage.now += timedelta(hours=1)
    stage.tick()
    stage.tick()
    assert stage.read(rollout.id).phase is phase
    stage.fleet.change("a", connected=True)
    assert stage.run(rollout.id, seconds=400).phase is RolloutPhase.ROLLED_BACK


def test_a_failing_promotion_goes_back_everywhere(stage: Stage) -> None:
    stage.prepare()
    stage.fleet.factor = {stage.new: 0.2}
    stage.fleet.stuck.add("b")
    rollout = stage.create(apply_timeout_s=20)
    back = stage.until(rollout.id, RolloutPhase.ROLLING_BACK)
    assert back.verdict is Verdict.BETTER
    assert "promotion failed" in back.message
    assert stage.run(rollout.id).phase is RolloutPhase.ROLLED_BACK
    assert stage.fleet.running() == {"a": stage.old, "b": stage.old}
    assert stage.fleet.production() == stage.old


def test_a_rollback_that_does_not_take_is_failed(stage: Stage) -> None:
    stage.prepare()
    rollout = stage.create(apply_timeout_s=20)
    stage.until(rollout.id, RolloutPhase.JUDGING)
    stage.fleet.stuck.add("a")
    with stage.fleet.database.session() as session:
        steering.cancel(session, rollout.id, actor="ann", now=stage.now)
    ended = stage.run(rollout.id)
    assert ended.phase is RolloutPhase.FAILED
    assert "a could not be confirmed" in ended.message
    assert stage.fleet.production() == stage.old


def test_promotion_goes_in_waves(stage: Stage) -> None:
    stage.prepare("a", "b", "c", "d")
    stage.fleet.factor = {stage.new: 0.2}
    rollout = stage.create(canary_share=0.25)
    told = []
    for _ in range(60):
        stage.run(rollout.id, seconds=5)
        running = sorted(node for node, number in stage.fleet.running().items() if number == stage.new)
        if not told or told[-1] != running:
            told.append(running)
    assert told == [["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]]
    assert stage.fleet.production() == stage.new


def test_a_fault_that_begins_at_half_of_the_pool_takes_all_of_it_back(
    stage: Stage, ledger: Callable[[], list[Any]]
) -> None:
    stage.prepare("a", "b", "c", "d")
    stage.fleet.factor = {stage.new: 0.2}
    rollout = stage.create(canary_share=0.25)
    while sum(number == stage.new for number in stage.fleet.running().values()) < 2:
        stage.run(rollout.id, seconds=5)
    stage.fleet.factor = {stage.new: 3.0}
    ended = stage.run(rollout.id)
    assert (ended.phase, ended.verdict) == (RolloutPhase.ROLLED_BACK, Verdict.WORSE), ended.message
    assert "on 2 of 4 nodes pool chat is worse than the rest" in ended.message
    assert set(stage.fleet.running().values()) == {stage.old} and stage.fleet.production() == stage.old
    (wave,) = ended.evidence["waves"]
    assert (wave["nodes"], wave["verdict"]) == (["a", "b"], "worse")
    assert ended.evidence["verdict"] == "better", "what was said of the canary is kept"
    assert ended.evidence["alpha_for_harm"] == pytest.approx(0.005)
    assert wave["alpha_for_harm"] == pytest.approx(0.005 / 4)


def test_a_slow_node_with_a_past_is_no_bad_canary(stage: Stage) -> None:
    stage.fleet.node_factor = {"a": 1.4}
    stage.prepare(history_s=1900)
    ended = stage.run(stage.create(tolerance=0.3, metrics=["ttft"]).id)
    assert (ended.phase, ended.verdict) == (RolloutPhase.PROMOTED, Verdict.NOT_WORSE), ended.message
    account = ended.evidence["metrics"]["ttft"]
    assert account["by"] == "itself before" and account["canary"]["p50"] > 1.3 * account["control"]["p50"]
    assert ended.evidence["waves"][0]["metrics"]["ttft"]["by"] == "its own history", "the last wave"


def test_one_node_is_judged_against_its_own_past(stage: Stage) -> None:
    stage.prepare("a", history_s=600)
    stage.fleet.factor = {stage.new: 0.3}
    ended = stage.run(stage.create().id)
    assert (ended.phase, ended.verdict) == (RolloutPhase.PROMOTED, Verdict.BETTER), ended.message
    assert ended.evidence["control"] == "before"
    assert ended.control_nodes == []


def test_emergency_skips_the_canary_and_says_so(stage: Stage, ledger_kinds: Callable[[], list[str]]) -> None:
    stage.prepare()
    rollout = stage.create(emergency=True, reason="the old revision crashes")
    assert rollout.phase is RolloutPhase.PROMOTING
    ended = stage.run(rollout.id)
    assert (ended.phase, ended.verdict) == (RolloutPhase.PROMOTED, Verdict.UNJUDGED)
    assert "rollout.canary" not in ledger_kinds()


def test_emergency_that_cannot_be_applied_goes_back(stage: Stage) -> None:
    stage.prepare()
    stage.fleet.failing.add("b")
    ended = stage.run(stage.create(emergency=True, reason="now").id)
    assert (ended.phase, ended.verdict) == (RolloutPhase.ROLLED_BACK, Verdict.UNJUDGED)
    assert stage.fleet.running() == {"a": stage.old, "b": stage.old}


def test_what_is_refused(stage: Stage) -> None:
    stage.prepare()
    for changes, error, field in (
        ({"revision": 99}, BadRequest, "revision"),
        ({"pool": "nobody"}, BadRequest, "pool"),
        ({"metrics": ["ttft", "ttfft"]}, BadRequest, "metrics[1]"),
        ({"metrics": []}, BadRequest, "metrics"),
        ({"metrics": ["ttft", "ttft"]}, BadRequest, "metrics[1]"),
        ({"max_judge_s": 20}, BadRequest, "max_judge_s"),
        ({"max_judge_s": float("inf")}, BadRequest, "max_judge_s"),
        ({"emergency": True, "reason": " "}, BadRequest, "reason"),
        ({"revision": stage.old}, Conflict, "revision"),
    ):
        with pytest.raises(error) as caught:
            stage.create(**changes)
        assert caught.value.detail["field"] == field
    stage.create()
    with pytest.raises(Conflict) as caught:
        stage.create()
    assert caught.value.detail == {"field": "pool", "rollout_id": 1}


def test_a_proposal_waits_and_can_be_cancelled(stage: Stage, ledger_kinds: Callable[[], list[str]]) -> None:
    stage.prepare()
    proposed = stage.create(start=False)
    assert proposed.phase is RolloutPhase.PROPOSED
    stage.run(proposed.id, seconds=20)
    assert stage.fleet.running() == {"a": stage.old, "b": stage.old}
    with stage.fleet.database.session() as session:
        assert steering.cancel(session, proposed.id, actor="ann", now=stage.now).phase is RolloutPhase.CANCELLED
    with pytest.raises(Conflict), stage.fleet.database.session() as session:
        store.start(session, proposed.id, actor="ann", now=stage.now)
    assert ledger_kinds() == ["rollout.created", "rollout.cancelled"]


def test_nothing_to_go_back_to_is_refused(stage: Stage) -> None:
    stage.fleet.add("a")
    stage.new = stage.fleet.revision(NEW)
    with pytest.raises(Conflict, match="go back to"):
        stage.create()


def test_one_rollout_that_fails_to_tick_does_not_stop_another(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.prepare()
    stage.fleet.add("x", "y", pool="code")
    stage.fleet.put_in_production(stage.old, pool="code")
    first, second = stage.create(), stage.create(pool="code")
    genuine = store.row_of

    def broken(session: Any, rollout_id: int, *, lock: bool = False) -> Any:
        if rollout_id == first.id:
            raise RuntimeError("bad row")
        return genuine(session, rollout_id, lock=lock)

    monkeypatch.setattr(store, "row_of", broken)
    stage.fleet.apply()
    stage.tick()
    assert stage.read(second.id).phase is RolloutPhase.JUDGING


@on_both
def test_two_people_who_start_at_once_start_one(stage: Stage) -> None:
    stage.prepare()
    proposed = [stage.create(start=False).id for _ in range(4)]
    barrier, started, refused = threading.Barrier(4), [], []

    def start(rollout_id: int) -> None:
        barrier.wait()
        try:
            with stage.fleet.database.session() as session:
                started.append(store.start(session, rollout_id, actor="ann", now=stage.now).id)
        except Conflict:
            refused.append(rollout_id)

    people = [threading.Thread(target=start, args=(rollout_id,)) for rollout_id in proposed]
    for person in people:
        person.start()
    for person in people:
        person.join()
    assert len(started) == 1
    assert len(refused) == 3


@on_both
def test_two_controllers_that_tick_at_once_judge_each_window_once(stage: Stage) -> None:
    stage.prepare()
    rollout = stage.create(tolerance=0.0)
    stage.until(rollout.id, RolloutPhase.JUDGING)
    stage.run(rollout.id, seconds=20)
    for _ in range(6):
        stage.fleet.apply()
        stage.fleet.serve(stage.now)
        stage.now += timedelta(seconds=5)
        replicas = [threading.Thread(target=stage.tick) for _ in range(3)]
        for replica in replicas:
            replica.start()
        for replica in replicas:
            replica.join()
    with stage.fleet.database.session() as session:
        row = store.row_of(session, rollout.id)
        assert row.judge is not None and row.judged_until is not None and row.judging_since is not None
        judged_s = (row.judged_until - window_ceiling(row.judging_since + timedelta(seconds=5))).total_seconds()
        assert Judge.model_validate(row.judge).ticks == judged_s / 5


@on_both
def test_replicas_that_tick_at_once_take_each_step_once(
    stage: Stage, ledger_kinds: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the start to the promotion, three at a time: the ledger has each step as if there were one."""
    stage.prepare("a", "b", "c")
    one = stage.tick

    def three_at_once() -> None:
        replicas = [threading.Thread(target=one) for _ in range(3)]
        for replica in replicas:
            replica.start()
        for replica in replicas:
            replica.join()

    monkeypatch.setattr(stage, "tick", three_at_once)
    ended = stage.run(stage.create(tolerance=0.5).id)
    assert ended.phase in ENDED
    # Of three nodes one is the canary, and the other two follow in a wave each, which is judged.
    waves = ("promoting", "judging") * 2
    assert ledger_kinds() == [
        f"rollout.{verb}" for verb in ("created", "started", "canary", "judging", *waves, "promoted")
    ]


def test_the_judge_survives_json(stage: Stage) -> None:
    stage.prepare()
    rollout = stage.create()
    stage.until(rollout.id, RolloutPhase.JUDGING)
    stage.run(rollout.id, seconds=30)
    with stage.fleet.database.session() as session:
        kept = store.row_of(session, rollout.id).judge
    assert kept is not None
    judge = Judge.model_validate(kept)
    assert judge.model_dump(mode="json") == kept
    assert judge.ticks > 0
