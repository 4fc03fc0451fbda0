"""Remedies on a real database with real rollouts and studies: what is started, offered and declined, and why."""

import pytest

from controlplane.app.remedies.standing import DECLINED, OFFERED, STARTED
from controlplane.contract.bodies.alerts import Remedy, StageShift
from controlplane.contract.bodies.remedies import RemedyAction, RemedyPolicy, RemedyState
from controlplane.contract.bodies.rollouts import RolloutCreate, RolloutPhase
from controlplane.contract.bodies.studies import KnobRange, StudyCreate, StudyState
from controlplane.contract.errors import Conflict
from controlplane.rollouts import steering
from controlplane.rollouts import store as rollouts
from controlplane.studies import store as studies
from tests.controlplane.app.remedies.world import BAD, GOOD, OTHER, World, alert, at, cause, rule

STUDY = StudyCreate(pool="p")
AUTOMATIC = Remedy(study=STUDY, policy=RemedyPolicy.AUTOMATIC, cooldown_s=600)
PROPOSE = Remedy(study=STUDY, cooldown_s=600)
ROLL_BACK, TUNE = RemedyAction.ROLL_BACK, RemedyAction.STUDY
Started, Offered, Declined = RemedyState.STARTED, RemedyState.OFFERED, RemedyState.DECLINED


def bad(revision: int = BAD, rollout_id: int | None = None, **more: object) -> dict[str, object]:
    return cause("config_change", revision=revision, rollout_id=rollout_id, **more)


def stage(name: str, before_s: float | None, during_s: float) -> StageShift:
    return StageShift(
        stage=name,
        before_mean_s=before_s,
        during_mean_s=during_s,
        before_p99_s=None,
        during_p99_s=None,
        share_of_increase=0.2,
    )


class TestTakeBack:
    def test_automatic_takes_exactly_that_revision_back_and_queues_a_study_from_the_good_one(
        self, world: World
    ) -> None:
        brought = world.reaches(BAD, 0)
        back, study = world.fires(alert(7, bad(rollout_id=brought.id)), rule(AUTOMATIC), 60)
        made = rollouts.get(world.session, back.rollout_id or 0)
        assert (back.action, back.state, back.revision, back.back_to) == (ROLL_BACK, Started, BAD, GOOD)
        assert (made.phase, made.spec.revision, made.spec.takes_back) == (RolloutPhase.CANARY, GOOD, BAD)
        assert (made.spec.emergency, made.created_by, len(made.canary_nodes)) == (False, "tailwright", 1)
        assert made.spec.reason.startswith("alert 7 (slow): takes back revision 2: it is config_change")
        assert (study.action, study.state) == (TUNE, Started)
        queued = studies.get(world.session, study.study_id or 0)
        assert (queued.state, queued.alert_id) == (StudyState.QUEUED, 7)
        assert f"from revision {GOOD}, once the take-back has ended" in study.why
        assert world.remedies.take_news() and not world.remedies.take_news()

    def test_propose_makes_the_rollout_and_starts_neither(self, world: World) -> None:
        world.reaches(BAD, 0)
        back, study = world.fires(alert(7, bad()), rule(PROPOSE), 60)
        made = rollouts.get(world.session, back.rollout_id or 0)
        assert (back.state, made.phase, made.spec.start) == (Offered, RolloutPhase.PROPOSED, False)
        assert f"tailwright rollout start {made.id} (POST /api/v1/rollouts/{made.id}/start)" in back.why
        assert (study.state, study.study_id) == (Offered, None) and "after the take-back" in study.why
        assert studies.active(world.session, "p") is None and world.production() == BAD
        assert not world.remedies.take_news()
        started = rollouts.start(world.session, made.id, actor="me", now=at(90))
        assert started.previous_revision == BAD

    def test_a_rule_without_a_remedy_offers_and_makes_nothing(self, world: World) -> None:
        world.reaches(BAD, 0)
        (back,) = world.fires(alert(7, bad()), rule(None), 60)
        assert (back.state, back.revision, back.back_to, back.rollout_id) == (Offered, BAD, GOOD, None)
        assert (
            "tailwright rollout start --pool p --revision 1 --takes-back 2 --reason 'alert 7 (slow)' "
            '(POST /api/v1/rollouts {"pool": "p", "revision": 1, "takes_back": 2})'
        ) in back.why
        assert len(rollouts.listing(world.session, before_id=None, limit=9)) == 1

    def test_it_is_judged_by_what_the_alert_is_about(self, world: World) -> None:
        world.reaches(BAD, 0)
        slow = alert(7, bad())
        slow.labels["metric"] = "ttft"
        back, _ = world.fires(slow, rule(AUTOMATIC), 60)
        assert rollouts.get(world.session, back.rollout_id or 0).spec.metrics == ["ttft"]

    def test_waiting_is_judged_by_first_tokens(self, world: World) -> None:
        world.reaches(BAD, 0)
        waits = alert(7, bad())
        waits.labels = {"kind": "saturation", "pool": "p", "sign": "backlog"}
        back, _ = world.fires(waits, rule(AUTOMATIC), 60)
        assert rollouts.get(world.session, back.rollout_id or 0).spec.metrics == ["ttft"]

    def test_it_is_judged_by_the_stages_of_service_that_got_slower_too(self, world: World) -> None:
        world.reaches(BAD, 0)
        slow = alert(7, bad())
        slow.labels["metric"] = "e2e"
        assert slow.diagnosis is not None
        slow.diagnosis.stages = [
            stage("queue", 0.1, 0.9),
            stage("prefill", 0.2, 0.25),
            stage("decode", 0.3, 0.374),
            stage("tokenize", 0.001, 0.1),
            stage("send", None, 0.1),
        ]
        back, _ = world.fires(slow, rule(AUTOMATIC), 60)
        assert rollouts.get(world.session, back.rollout_id or 0).spec.metrics == ["e2e", "prefill"]

    def test_the_command_for_a_person_judges_by_it_too(self, world: World) -> None:
        world.reaches(BAD, 0)
        slow = alert(7, bad())
        slow.labels["metric"] = "itl"
        (back,) = world.fires(slow, rule(None), 60)
        assert "--takes-back 2 --metrics itl --reason" in back.why and '"metrics": ["itl"]' in back.why

    def test_a_rule_may_take_back_without_a_study(self, world: World) -> None:
        world.reaches(BAD, 0)
        wanted = Remedy(policy=RemedyPolicy.AUTOMATIC, rollout={"canary_share": 0.5, "tolerance": 0.2})
        (back,) = world.fires(alert(7, bad()), rule(wanted), 60)
        spec = rollouts.get(world.session, back.rollout_id or 0).spec
        assert (back.state, spec.canary_share, spec.tolerance) == (Started, 0.5, 0.2)

    def test_a_change_far_from_the_onset_waits_for_a_person(self, world: World) -> None:
        world.reaches(BAD, 0)
        back, _ = world.fires(alert(7, {**bad(), "score": 0.5}), rule(AUTOMATIC), 60)
        assert back.state is Offered
        assert rollouts.get(world.session, back.rollout_id or 0).phase is RolloutPhase.PROPOSED

    def test_the_winner_of_a_study_that_was_judged_well_waits_for_a_person(self, world: World) -> None:
        """A trade-off that was wanted is not undone by the service alone."""
        wanted = RolloutCreate(pool="p", revision=BAD, study_id=3)
        winner = rollouts.create(world.session, wanted, actor="tuner", now=at(0))
        world.ends(winner.id, RolloutPhase.PROMOTED, 40)
        back, _ = world.fires(alert(7, bad(rollout_id=winner.id)), rule(AUTOMATIC), 60)
        assert back.state is Offered and "it won study 3 and was judged not worse" in back.why

    def test_a_step_in_production_is_taken_back_like_any_revision(self, world: World) -> None:
        """Nobody has weighed it but the judge."""
        wanted = RolloutCreate(pool="p", revision=BAD, study_id=3, study_step=2)
        step = rollouts.create(world.session, wanted, actor="tailwright", now=at(0))
        world.ends(step.id, RolloutPhase.PROMOTED, 40)
        back, *_ = world.fires(alert(7, bad(rollout_id=step.id)), rule(AUTOMATIC), 60)
        assert back.state is Started

    def test_a_superseded_revision_is_left_alone(self, world: World) -> None:
        brought = world.reaches(BAD, 0)
        world.reaches(OTHER, 30)
        (back,) = world.fires(alert(7, bad(rollout_id=brought.id)), rule(AUTOMATIC), 60)
        assert (back.state, back.rollout_id) == (Declined, None)
        assert back.why == "pool p runs revision 3, not revision 2: nothing to take back"
        assert world.production() == OTHER

    def test_the_judge_of_a_canary_decides(self, world: World) -> None:
        canary = rollouts.create(world.session, RolloutCreate(pool="p", revision=BAD), actor="me", now=at(0))
        (back,) = world.fires(alert(7, bad(rollout_id=canary.id)), rule(AUTOMATIC), 60)
        assert back.state is Declined
        assert back.why == f"revision 2 is a canary under judgement: the judge of rollout {canary.id} decides"

    def test_another_rollout_under_way_comes_first(self, world: World) -> None:
        world.reaches(BAD, 0)
        other = rollouts.create(world.session, RolloutCreate(pool="p", revision=OTHER), actor="me", now=at(30))
        (back,) = world.fires(alert(7, bad()), rule(AUTOMATIC), 60)
        assert back.state is Declined and f"rollout {other.id} of revision 3 is under way" in back.why

    def test_an_emergency_that_is_still_going_out_can_be_cancelled(self, world: World) -> None:
        wanted = RolloutCreate(pool="p", revision=BAD, emergency=True, reason="now")
        running = rollouts.create(world.session, wanted, actor="me", now=at(0))
        (back,) = world.fires(alert(7, bad(rollout_id=running.id)), rule(AUTOMATIC), 60)
        assert back.state is Declined and f"tailwright rollout cancel {running.id}" in back.why

    def test_with_nothing_before_it_a_study_is_what_is_left(self, world: World) -> None:
        back, study = world.fires(alert(7, bad(GOOD)), rule(AUTOMATIC), 60)
        assert (back.state, back.why) == (Declined, "nothing was in production in pool p before revision 1")
        assert study.state is Started

    def test_a_take_back_is_not_taken_back(self, world: World) -> None:
        """Two revisions that are both called bad must not follow each other for ever."""
        world.reaches(BAD, 0)
        back, _ = world.fires(alert(7, bad()), rule(AUTOMATIC), 60)
        world.ends(back.rollout_id or 0, RolloutPhase.PROMOTED, 120)
        assert world.production() == GOOD
        steps = world.fires(alert(8, bad(GOOD, back.rollout_id)), rule(AUTOMATIC), 200)
        assert steps[0].state is Declined and "going back again would bring that one" in steps[0].why

    def test_one_take_back_for_two_alerts(self, world: World) -> None:
        world.reaches(BAD, 0)
        first = world.fires(alert(7, bad()), rule(AUTOMATIC), 60)
        second = world.fires(alert(8, bad()), rule(AUTOMATIC), 62)
        assert [step.state for step in second] == [Declined, Declined]
        assert [step.rollout_id for step in second] == [first[0].rollout_id, None]
        assert second[1].study_id == first[1].study_id

    def test_one_proposal_for_two_alerts_which_an_automatic_rule_starts(self, world: World) -> None:
        world.reaches(BAD, 0)
        first = world.fires(alert(7, bad()), rule(PROPOSE), 60)[0]
        second = world.fires(alert(8, bad()), rule(PROPOSE), 62)[0]
        assert (second.state, second.rollout_id) == (Offered, first.rollout_id)
        third = world.fires(alert(9, bad()), rule(AUTOMATIC), 64)[0]
        assert (third.state, third.rollout_id) == (Started, first.rollout_id)
        assert rollouts.get(world.session, first.rollout_id or 0).phase is RolloutPhase.CANARY

    @pytest.mark.parametrize(
        ("phase", "then"), [(RolloutPhase.ROLLED_BACK, [Declined, Started]), (RolloutPhase.CANCELLED, [Declined])]
    )
    def test_a_take_back_that_did_not_succeed_is_not_tried_again_at_once(
        self, world: World, phase: RolloutPhase, then: list[RemedyState]
    ) -> None:
        world.reaches(BAD, 0)
        remedy = PROPOSE if phase is RolloutPhase.CANCELLED else AUTOMATIC
        first = world.fires(alert(7, bad()), rule(remedy), 60)
        if phase is RolloutPhase.CANCELLED:
            steering.cancel(world.session, first[0].rollout_id or 0, actor="me", now=at(100))
        else:
            world.ends(first[0].rollout_id or 0, phase, 100)
            studies.cancel(world.session, first[1].study_id or 0, actor="me", now=at(100))
        worse = alert(8, bad(), value=2.0)
        again = world.fires(worse, rule(remedy), 200)
        assert [step.state for step in again] == then and again[0].until == at(700)
        assert world.fires(worse, rule(remedy), 700)[0].state is not Declined

    def test_the_same_revision_rolled_out_anew_is_taken_back_anew(self, world: World) -> None:
        world.reaches(BAD, 0)
        first = world.fires(alert(7, bad()), rule(AUTOMATIC), 60)[0]
        world.ends(first.rollout_id or 0, RolloutPhase.ROLLED_BACK, 100)
        world.reaches(GOOD, 110)
        brought = world.reaches(BAD, 120)
        again = world.fires(alert(8, bad(rollout_id=brought.id)), rule(AUTOMATIC), 200)[0]
        assert again.state is Started and again.rollout_id != first.rollout_id

    def test_a_proposal_that_has_been_overtaken_cannot_be_started(self, world: World) -> None:
        world.reaches(BAD, 0)
        proposed = world.fires(alert(7, bad()), rule(PROPOSE), 60)[0]
        world.reaches(OTHER, 90)
        with pytest.raises(Conflict) as caught:
            rollouts.start(world.session, proposed.rollout_id or 0, actor="me", now=at(100))
        assert caught.value.detail["field"] == "takes_back"

    def test_what_cannot_be_started_is_declined_and_its_study_with_it(self, world: World) -> None:
        world.reaches(BAD, 0)
        wrong = AUTOMATIC.model_copy(update={"rollout": {"metrics": ["speed"]}})
        back, study = world.fires(alert(7, bad()), rule(wrong), 60)
        assert (back.state, study.state) == (Declined, Declined)
        assert "metrics[0]" in back.why and "could not be started" in study.why
        assert studies.active(world.session, "p") is None


class TestStudy:
    def test_a_rule_without_a_remedy_starts_nothing(self, world: World) -> None:
        assert world.fires(alert(1), rule(None), 0) == [] and world.told() == []

    def test_a_study_is_started_for_the_alert(self, world: World) -> None:
        (step,) = world.fires(alert(1), rule(PROPOSE), 0)
        study = studies.active(world.session, "p")
        assert study is not None
        assert (study.id, study.alert_id, study.created_by) == (step.study_id, 1, "tailwright")
        assert study.spec.reason == "alert 1: ttft p99 doubled"

    def test_one_study_at_a_time(self, world: World) -> None:
        mine = studies.create(world.session, STUDY, actor="me", now=at(0))
        (step,) = world.fires(alert(1), rule(PROPOSE), 1)
        assert (step.state, step.study_id) == (Declined, mine.id)

    def test_the_cooldown_of_a_cause_holds(self, world: World) -> None:
        (first,) = world.fires(alert(1), rule(PROPOSE), 0)
        studies.cancel(world.session, first.study_id or 0, actor="me", now=at(0))
        (second,) = world.fires(alert(2), rule(PROPOSE), 599)
        assert (second.state, second.until) == (Declined, at(600))
        assert f"study {first.study_id} was started for the same cause" in second.why
        (third,) = world.fires(alert(3), rule(PROPOSE), 600)
        assert third.state is Started
        assert [entry.kind for entry in world.told()] == [STARTED, DECLINED, STARTED]

    @pytest.mark.parametrize(
        "changed",
        ["stage", "kind", "worse", "revision"],
    )
    def test_another_cause_opens_it_again(self, world: World, changed: str) -> None:
        (first,) = world.fires(alert(1, cause("prompt_mix")), rule(PROPOSE), 0)
        studies.cancel(world.session, first.study_id or 0, actor="me", now=at(0))
        same = alert(2, cause("prompt_mix"), value=1.4)
        assert world.fires(same, rule(PROPOSE), 10)[0].state is Declined
        if changed == "revision":
            world.reaches(OTHER, 20)
        told = {
            "stage": same.model_copy(
                update={"diagnosis": same.diagnosis and same.diagnosis.model_copy(update={"stage": "decode"})}
            ),
            "kind": alert(2, cause("cache_miss"), value=1.4),
            "worse": alert(2, cause("prompt_mix"), value=1.5),
            "revision": same,
        }[changed]
        assert world.fires(told, rule(PROPOSE), 30)[0].state is Started

    def test_a_study_that_is_not_valid_does_not_stop_the_alert(self, world: World) -> None:
        wrong = Remedy(study=StudyCreate(pool="p", space={"max_num_seq": KnobRange(minimum=1, maximum=2)}))
        (step,) = world.fires(alert(1), rule(wrong), 0)
        assert step.state is Declined and "max_num_seq" in step.why

    def test_an_outdated_study_gives_way(self, world: World) -> None:
        """It searched from a revision that has been replaced since: better than that may be worse than what runs."""
        (first,) = world.fires(alert(1), rule(PROPOSE), 0)
        world.claims(5)
        world.reaches(OTHER, 100)
        (second,) = world.fires(alert(2), rule(PROPOSE), 200)
        assert second.state is Started and second.study_id != first.study_id
        assert studies.get(world.session, first.study_id or 0).state is StudyState.CANCELLED
        assert "from revision 1, which is not in production any more, so it is ended" in second.why

    def test_a_persons_study_is_never_ended(self, world: World) -> None:
        mine = studies.create(world.session, STUDY, actor="me", now=at(0))
        world.claims(5)
        world.reaches(OTHER, 100)
        (step,) = world.fires(alert(2), rule(PROPOSE), 200)
        assert (step.state, step.study_id) == (Declined, None) and "me began it" in step.why
        assert studies.get(world.session, mine.id).state is StudyState.RUNNING


class TestTheStory:
    """Noise alarms first and starts a study; 70 s later the bad configuration comes."""

    def test_the_study_of_the_noise_has_ended_and_the_real_thing_has_its_remedies(self, world: World) -> None:
        (noise,) = world.fires(alert(1, cause("unknown")), rule(AUTOMATIC), 0)
        assert noise.state is Started
        studies.cancel(world.session, noise.study_id or 0, actor="me", now=at(60))
        brought = world.reaches(BAD, 70)
        back, study = world.fires(alert(2, bad(rollout_id=brought.id), value=6.0), rule(AUTOMATIC), 100)
        assert (back.state, study.state) == (Started, Started)
        assert study.study_id not in (None, noise.study_id)

    def test_the_study_of_the_noise_still_runs_and_serves_the_real_thing(self, world: World) -> None:
        """It searches from the very revision that is put back, so it goes on; the take-back does not wait for it."""
        (noise,) = world.fires(alert(1, cause("unknown")), rule(AUTOMATIC), 0)
        world.claims(3)
        brought = world.reaches(BAD, 70)
        back, study = world.fires(alert(2, bad(rollout_id=brought.id)), rule(AUTOMATIC), 100)
        assert back.state is Started
        assert (study.state, study.study_id) == (Declined, noise.study_id)
        assert f"from revision {GOOD} and serves this alert too" in study.why
        assert studies.get(world.session, noise.study_id or 0).state is StudyState.RUNNING

    def test_a_study_begun_on_the_bad_revision_gives_way_to_one_from_the_good(self, world: World) -> None:
        """The first alarm did not name the cause: its study began from the revision that is taken back now."""
        brought = world.reaches(BAD, 0)
        (first,) = world.fires(alert(1, cause("unknown")), rule(AUTOMATIC), 20)
        world.claims(25)
        back, study = world.fires(alert(2, bad(rollout_id=brought.id)), rule(AUTOMATIC), 60)
        assert (back.state, study.state) == (Started, Started)
        assert studies.get(world.session, first.study_id or 0).state is StudyState.CANCELLED
        assert studies.get(world.session, study.study_id or 0).state is StudyState.QUEUED

    def test_the_same_alert_that_gets_another_cause(self, world: World) -> None:
        """An open alert is told anew: what stands on it is not said twice, what is new is."""
        steps = world.fires(alert(1, cause("unknown")), rule(AUTOMATIC), 0)
        assert world.fires(alert(1, cause("unknown"), remedies=steps), rule(AUTOMATIC), 30) == []
        brought = world.reaches(BAD, 70)
        told = alert(1, bad(rollout_id=brought.id), remedies=steps)
        new = world.fires(told, rule(AUTOMATIC), 100)
        assert [(step.action, step.state) for step in new] == [(ROLL_BACK, Started)]
        assert world.fires(told.model_copy(update={"remedies": [*steps, *new]}), rule(AUTOMATIC), 130) == []


class TestOthers:
    def test_load_is_offered_admission_with_its_figures(self, world: World) -> None:
        told = cause("load", message="load rose from 6 to 12 requests a second, of which 7 were served")
        (step,) = world.fires(alert(1, told), rule(AUTOMATIC), 0)
        assert (step.action, step.state) == (RemedyAction.ADMISSION, Offered)
        assert "from 6 to 12 requests a second, of which 7 were served: let in less" in step.why
        assert studies.active(world.session, "p") is None

    @pytest.mark.parametrize("kind", ["host", "one_node"])
    def test_a_disturbed_node_is_offered_to_be_drained(self, world: World, kind: str) -> None:
        (step,) = world.fires(alert(1, cause(kind, node="a")), rule(None), 0)
        assert (step.action, step.state, step.node) == (RemedyAction.DRAIN, Offered, "a")

    def test_why_stands_in_the_ledger(self, world: World) -> None:
        world.reaches(BAD, 0)
        back, study = world.fires(alert(7, bad()), rule(PROPOSE), 60)
        first, second = world.told()
        assert (first.kind, second.kind) == (OFFERED, OFFERED)
        assert back.why in first.message and study.why in second.message
        wanted = {"alert": 7, "action": "roll_back", "cause": "config_change", "in_production": BAD, "revision": BAD}
        assert wanted.items() <= first.evidence.items() and first.evidence["rollout_id"] == back.rollout_id
