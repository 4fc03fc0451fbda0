"""The machine, driven by arbitrary facts: every path ends, and the promises hold on each."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.bodies.rollouts import ENDED, RolloutPhase, Verdict
from controlplane.contract.errors import Conflict
from controlplane.rollouts import interventions, machine
from controlplane.rollouts.decision import (
    ClearOverrides,
    Decision,
    Facts,
    SetOverride,
    SetPoolRevision,
    State,
)
from controlplane.rollouts.node_readings import LOST_GRACE_S
from controlplane.rollouts.stages import wave_size
from tests.controlplane.rollouts.machine_world import NEW, OLD, SPEC, START, World

node_trouble = st.fixed_dictionaries(
    {
        "connected": st.sampled_from([True, True, True, False]),
        "healthy": st.sampled_from([True, True, True, False]),
        "error": st.sampled_from([None, None, None, None, None, "no memory"]),
        "lost_s": st.sampled_from([0.0, 0.0, 5.0, 30.0]),
    }
)
step = st.tuples(
    st.sampled_from([None, Verdict.BETTER, Verdict.NOT_WORSE, Verdict.NOT_WORSE, Verdict.WORSE]),
    st.dictionaries(st.sampled_from(["n0", "n1", "n2", "n3"]), node_trouble, max_size=2),
    st.booleans(),  # Do the nodes obey in this step?
    st.integers(1, 40),  # Seconds until the next.
)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 4), st.booleans(), st.booleans(), st.lists(step, max_size=40), st.integers(0, 60))
def test_every_path_ends_and_keeps_the_promises(
    nodes: int,
    emergency: bool,
    only_better: bool,
    steps: list[tuple[Verdict | None, dict[str, dict[str, object]], bool, int]],
    cancel: int,
) -> None:
    world = World(nodes, SPEC.model_copy(update={"emergency": emergency, "only_better": only_better}))
    world.take(machine.start(world.state, world.facts().nodes))
    seen: list[Verdict | None] = []
    for place, (judged, trouble, obey, seconds) in enumerate(steps):
        if world.state.phase in ENDED:
            break
        if place == cancel:
            decision = interventions.cancel(world.state)
            if decision is not None:
                world.take(decision)
        world.now += timedelta(seconds=seconds)
        if obey:
            world.obey()
        seen.append(judged)
        world.advance(world.facts(judged, **trouble))
    for _ in range(40):  # Left alone in the silence, it ends by its time-outs.
        if world.state.phase in ENDED:
            break
        world.now += timedelta(seconds=31)
        world.advance(world.facts())
    assert world.state.phase in ENDED
    phases = [decision.phase for decision in world.decisions]
    if not emergency:
        _each_wave_was_judged(world.decisions)
    if world.state.phase is RolloutPhase.PROMOTED:
        assert world.pool == NEW
        good = (Verdict.BETTER,) if only_better else (Verdict.BETTER, Verdict.NOT_WORSE)
        assert world.state.verdict in ((Verdict.UNJUDGED,) if emergency else good)
        assert emergency or RolloutPhase.JUDGING in phases
        assert all(world.runs[name] == NEW for name in world.state.told_nodes)
    else:
        assert world.pool == OLD
        assert not world.overrides
        back = next(decision for decision in world.decisions if decision.phase is RolloutPhase.ROLLING_BACK)
        assert SetPoolRevision(OLD) in back.actions
        assert f"revision {OLD}" in back.message
    if not emergency:
        # The pool's revision changes at the very end or never.
        assert [number for number in world.pools_set if number == NEW] in ([], [NEW])
        promoting = [decision for decision in world.decisions if decision.phase is RolloutPhase.PROMOTING]
        assert all(not any(isinstance(a, SetPoolRevision) for a in decision.actions) for decision in promoting)


def _each_wave_was_judged(decisions: list[Decision]) -> None:
    """Nobody is told before those who were told before them have been judged, nor is the pool's revision changed."""
    judged: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    for decision in decisions:
        if any(isinstance(action, SetOverride | SetPoolRevision) for action in decision.actions):
            assert decision.phase is RolloutPhase.ROLLING_BACK or told == judged
        if decision.phase is RolloutPhase.JUDGING:
            judged = decision.told_nodes
        told = decision.told_nodes


@pytest.mark.parametrize("judged", [Verdict.WORSE, None])
def test_worse_goes_back_at_once_and_nothing_ends_inconclusive(judged: Verdict | None) -> None:
    world = World(2)
    world.take(machine.start(world.state, world.facts().nodes))
    world.obey()
    world.advance(world.facts())
    assert world.state.phase is RolloutPhase.JUDGING
    world.now += timedelta(seconds=1 if judged else 120)
    world.advance(world.facts(judged))
    assert world.state.phase is RolloutPhase.ROLLING_BACK
    assert world.state.verdict is (judged or Verdict.INCONCLUSIVE)
    assert judged or "inconclusive" in world.decisions[-1].message


@pytest.mark.parametrize(
    ("judged", "after_s", "phase"),
    [
        (Verdict.BETTER, 30, RolloutPhase.PROMOTING),
        (Verdict.NOT_WORSE, 119, RolloutPhase.JUDGING),  # It may be shown to be better yet.
        (Verdict.NOT_WORSE, 120, RolloutPhase.ROLLING_BACK),  # More traffic was not asked for: it is decided.
        (Verdict.WORSE, 1, RolloutPhase.ROLLING_BACK),
    ],
)
def test_where_only_better_stays_what_is_not_worse_goes_back_in_time(
    judged: Verdict, after_s: int, phase: RolloutPhase
) -> None:
    world = World(2, SPEC.model_copy(update={"only_better": True, "extended_judge_s": 600.0}))
    world.take(machine.start(world.state, world.facts().nodes))
    world.obey()
    world.advance(world.facts())
    world.now += timedelta(seconds=after_s)
    world.advance(replace(world.facts(judged), decides=True))
    assert world.state.phase is phase
    if judged is Verdict.NOT_WORSE and phase is RolloutPhase.ROLLING_BACK:
        assert world.state.verdict is Verdict.NOT_WORSE
        assert "not worse, but not shown to be better within 120 s" in world.state.message


def test_better_waits_for_the_least_time() -> None:
    world = World(2)
    world.take(machine.start(world.state, world.facts().nodes))
    world.obey()
    world.advance(world.facts())
    world.now += timedelta(seconds=29)
    world.advance(world.facts(Verdict.BETTER))
    assert world.state.phase is RolloutPhase.JUDGING
    world.now += timedelta(seconds=1)
    world.advance(world.facts(Verdict.BETTER))
    assert world.state.phase is RolloutPhase.PROMOTING


def test_the_canary_is_a_share_of_connected_healthy_nodes() -> None:
    world = World(8)
    decision = machine.start(world.state, world.facts(n0={"connected": False}, n1={"healthy": False}).nodes)
    assert decision.canary_nodes == ("n2", "n3")
    with pytest.raises(Conflict, match="no connected, healthy"):
        machine.start(world.state, world.facts(**{name: {"healthy": False} for name in world.names}).nodes)


def test_absent_nodes_do_not_hold_up_a_promotion() -> None:
    world = World(2)
    absent: dict[str, dict[str, object]] = {"n1": {"connected": False}}
    world.take(machine.start(world.state, world.facts().nodes))
    world.obey()
    world.advance(world.facts(None, **absent))
    world.now += timedelta(seconds=60)
    for _ in range(3):
        world.advance(world.facts(Verdict.NOT_WORSE, **absent))
    assert world.state.phase is RolloutPhase.PROMOTED
    assert "n1 will be given it on coming back" in world.decisions[-1].message


def test_an_emergency_without_a_past_cannot_go_back() -> None:
    world = World(1, SPEC.model_copy(update={"emergency": True}), previous=None)
    world.take(machine.start(world.state, world.facts().nodes))
    world.advance(world.facts(n0={"error": "no memory"}))
    world.advance(world.facts())
    assert world.state.phase is RolloutPhase.FAILED
    assert "no revision before" in world.decisions[-1].message


def test_ended_rollouts_stay_ended() -> None:
    for phase in ENDED:
        state = State(phase, SPEC, previous_revision=OLD)
        assert machine.advance(state, Facts(()), START) is None
        with pytest.raises(Conflict):
            interventions.cancel(state)
        with pytest.raises(Conflict):
            machine.start(state, [])


def judged_with(**trouble: object) -> World:
    """A world of two nodes in which n0 is the canary and is judged, and then something happens to it."""
    world = World(2, SPEC)
    world.take(machine.start(world.state, world.facts().nodes))
    world.obey()
    world.advance(world.facts())
    assert world.state.phase is RolloutPhase.JUDGING
    canary = world.state.canary_nodes[0]
    facts = world.facts(**({canary: trouble} if trouble else {}))
    if not trouble:  # It is not there any more.
        facts = Facts(tuple(fact for fact in facts.nodes if fact.node != canary), None)
    world.now += timedelta(seconds=5)
    world.advance(facts)
    return world


@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        ({}, "has left the pool"),
        ({"healthy": False, "health_detail": "out of memory"}, "became unhealthy: out of memory"),
        ({"lost_s": LOST_GRACE_S}, "no longer runs the revision"),
        ({"lost_s": LOST_GRACE_S, "connected": False}, "is disconnected"),
    ],
)
def test_a_canary_that_cannot_be_judged_any_more_is_taken_back(trouble: dict[str, object], said: str) -> None:
    world = judged_with(**trouble)
    assert world.state.phase is RolloutPhase.ROLLING_BACK
    assert said in world.decisions[-1].message


def test_a_canary_that_is_away_for_a_moment_is_waited_for() -> None:
    world = judged_with(lost_s=LOST_GRACE_S - 1)
    assert world.state.phase is RolloutPhase.JUDGING


# -- what each step says and does ------------------------------------------------------------------------------------


def began(nodes: int, **spec: object) -> World:
    """A world whose canary has just been told."""
    world = World(nodes, SPEC.model_copy(update=spec))
    world.take(machine.start(world.state, world.facts().nodes))
    return world


def under_judgement(nodes: int, **spec: object) -> World:
    world = began(nodes, **spec)
    world.obey()
    world.advance(world.facts())
    assert world.state.phase is RolloutPhase.JUDGING
    return world


def goes_back(decision: Decision | None, why: str, told: tuple[str, ...], verdict: Verdict | None = None) -> None:
    """It puts the whole previous revision back at every node that was told otherwise, and says why."""
    assert decision is not None
    assert (decision.phase, decision.verdict) == (RolloutPhase.ROLLING_BACK, verdict)
    assert decision.message == f"{why}; going back to revision {OLD}"
    assert decision.actions == (SetPoolRevision(OLD), ClearOverrides(told))
    assert decision.told_nodes == told


def test_a_start_tells_the_canary_alone() -> None:
    decision = machine.start(World(8).state, World(8).facts().nodes)
    assert decision.message == "revision 7 is being given to n0, n1"
    assert decision.actions == (SetOverride(("n0", "n1"), NEW),)
    assert decision.canary_nodes == decision.told_nodes == ("n0", "n1")
    assert decision.verdict is None


@pytest.mark.parametrize(("share", "nodes", "size"), [(0.25, 3, 1), (0.3, 10, 3), (0.07, 100, 7), (1.0, 4, 4)])
def test_a_wave_is_the_share_rounded_down_but_one_node_at_least(share: float, nodes: int, size: int) -> None:
    assert wave_size(share, nodes) == size


def test_a_pool_without_a_revision_in_production_cannot_be_rolled_out_to() -> None:
    world = World(2, previous=None)
    with pytest.raises(Conflict, match="no revision in production to go back to") as refused:
        machine.start(world.state, world.facts().nodes)
    assert refused.value.detail["field"] == "pool"


def test_an_emergency_sets_the_pools_revision_at_once_and_waits_for_who_is_there() -> None:
    world = World(3, SPEC.model_copy(update={"emergency": True}))
    decision = machine.start(world.state, world.facts(n1={"connected": False}).nodes)
    assert (decision.phase, decision.verdict) == (RolloutPhase.PROMOTING, Verdict.UNJUDGED)
    assert decision.actions == (SetPoolRevision(NEW), ClearOverrides(("n0", "n1", "n2")))
    assert decision.told_nodes == ("n0", "n2")
    assert decision.message == "emergency: revision 7 goes to the whole pool unjudged: x"


def test_a_cancelled_rollout_goes_back_when_it_was_under_way_and_once_only() -> None:
    assert interventions.cancel(World(2).state) == Decision(RolloutPhase.CANCELLED, "cancelled before it began")
    world = under_judgement(2)
    decision = interventions.cancel(world.state)
    goes_back(decision, "cancelled while under way", ("n0",))
    assert decision is not None
    world.take(decision)
    assert interventions.cancel(world.state) is None


def test_a_canary_that_cannot_apply_it_goes_back_at_once() -> None:
    world = began(2)
    goes_back(
        machine.advance(world.state, world.facts(n0={"error": "no memory"}), world.now),
        "n0 could not apply it: no memory",
        ("n0",),
    )


def test_a_canary_has_its_time_to_run_the_revision_less_the_time_nobody_looked() -> None:
    world = began(8)
    world.runs["n0"] = NEW
    assert machine.advance(world.state, world.facts(), START + timedelta(seconds=59.9)) is None
    late = START + timedelta(seconds=60)
    goes_back(
        machine.advance(world.state, world.facts(), late),
        "n1 not confirmed to run revision 7 within 60 s",
        ("n0", "n1"),
    )
    assert machine.advance(replace(world.state, away_s=0.5), world.facts(), late) is None


@pytest.mark.parametrize("trouble", [{"connected": False}, {"healthy": False}])
def test_a_node_confirms_only_while_it_is_there_and_well(trouble: dict[str, object]) -> None:
    world = began(2)
    world.obey()
    assert machine.advance(world.state, world.facts(n0=trouble), world.now) is None
    confirmed = machine.advance(world.state, world.facts(), world.now)
    assert confirmed is not None
    assert confirmed.message == "n0 confirmed to run revision 7; judging on live traffic"
    assert (confirmed.canary_nodes, confirmed.told_nodes) == (("n0",), ("n0",))


def test_a_canary_that_is_worse_goes_back_with_its_verdict() -> None:
    world = under_judgement(2)
    goes_back(
        machine.advance(world.state, world.facts(Verdict.WORSE), world.now),
        "the canary is worse than the control",
        ("n0",),
        Verdict.WORSE,
    )
    taking_back = under_judgement(2, takes_back=6)
    goes_back(
        machine.advance(taking_back.state, taking_back.facts(Verdict.WORSE), taking_back.now),
        "the canary is worse than the control: revision 6 is not what made pool chat slow",
        ("n0",),
        Verdict.WORSE,
    )


def test_what_cannot_be_judged_in_time_is_inconclusive() -> None:
    world = under_judgement(2)
    assert machine.advance(world.state, world.facts(), START + timedelta(seconds=119.9)) is None
    goes_back(
        machine.advance(world.state, world.facts(), START + timedelta(seconds=120)),
        "inconclusive: not enough evidence within 120 s",
        ("n0",),
        Verdict.INCONCLUSIVE,
    )
    taking_back = under_judgement(2, takes_back=6)
    decision = machine.advance(taking_back.state, taking_back.facts(), START + timedelta(seconds=120))
    assert decision is not None
    assert (
        "revision 6 was not taken back, a person has to decide: an emergency rollout of revision 7" in decision.message
    )


def test_the_least_time_of_judging_holds_where_the_most_is_less() -> None:
    world = under_judgement(2, min_judge_s=200)
    assert machine.advance(world.state, world.facts(), START + timedelta(seconds=199)) is None
    promoted = machine.advance(world.state, world.facts(Verdict.BETTER), START + timedelta(seconds=200))
    assert promoted is not None and promoted.phase is RolloutPhase.PROMOTING


def test_a_good_verdict_goes_round_in_waves_each_judged_and_changes_the_pool_at_the_end() -> None:
    world = under_judgement(8)
    world.now += timedelta(seconds=30)
    world.advance(world.facts(Verdict.NOT_WORSE))
    told = [("n2", "n3"), ("n4", "n5"), ("n6", "n7")]
    for place, wave in enumerate(told):
        assert world.decisions[-1].actions == (SetOverride(wave, NEW),)
        assert world.decisions[-1].message == f"revision 7 (not_worse) is being given to {', '.join(wave)}"
        assert world.state.canary_nodes == ("n0", "n1") and world.state.told_nodes[-2:] == wave
        world.advance(world.facts())
        assert world.decisions[-1].actions == (SetOverride(wave, NEW),), "nothing more before they run it"
        world.obey()
        world.advance(world.facts())
        running = 4 + 2 * place
        judging = world.decisions[-1]
        assert (judging.phase, judging.verdict, judging.actions) == (RolloutPhase.JUDGING, Verdict.NOT_WORSE, ())
        assert judging.message == f"{running} of 8 nodes run revision 7; judging them on live traffic"
        world.now += timedelta(seconds=29)
        world.advance(world.facts(Verdict.NOT_WORSE))
        assert world.decisions[-1] is judging, "not before the least time"
        world.now += timedelta(seconds=1)
        world.advance(world.facts(Verdict.NOT_WORSE))
    assert world.decisions[-1] == Decision(
        RolloutPhase.PROMOTED,
        "pool chat runs revision 7",
        verdict=Verdict.NOT_WORSE,
        actions=(SetPoolRevision(NEW), ClearOverrides(tuple(world.names))),
        canary_nodes=("n0", "n1"),
        told_nodes=tuple(world.names),
    )


def wave_under_judgement(nodes: int = 4, **spec: object) -> World:
    """A world whose first wave after the canary runs the revision and is judged."""
    world = under_judgement(nodes, **spec)
    world.now += timedelta(seconds=30)
    world.advance(world.facts(Verdict.BETTER))
    world.obey()
    world.advance(world.facts())
    return world


def test_a_wave_that_is_worse_takes_every_node_back() -> None:
    world = wave_under_judgement()
    assert world.state.phase is RolloutPhase.JUDGING
    goes_back(
        machine.advance(world.state, world.facts(Verdict.WORSE), world.now),
        "with revision 7 on 2 of 4 nodes pool chat is worse than the rest",
        ("n0", "n1"),
        Verdict.WORSE,
    )
    last = wave_under_judgement(2)
    goes_back(
        machine.advance(last.state, last.facts(Verdict.WORSE), last.now),
        "with revision 7 on 2 of 2 nodes pool chat is worse than the time before",
        ("n0", "n1"),
        Verdict.WORSE,
    )


def test_a_harmless_wave_is_followed_after_its_time_and_one_that_leans_to_harm_is_not() -> None:
    world = wave_under_judgement(wave_judge_s=60)
    late = world.now + timedelta(seconds=60)
    assert machine.advance(world.state, world.facts(), late - timedelta(seconds=1)) is None
    following = machine.advance(world.state, world.facts(), late)
    assert following is not None and following.actions == (SetOverride(("n2",), NEW),)
    leaning = replace(world.facts(), harmless=False)
    assert machine.advance(world.state, leaning, late) is None
    decision = machine.advance(world.state, leaning, world.now + timedelta(seconds=120))
    assert decision is not None and decision.verdict is Verdict.INCONCLUSIVE
    assert "on 2 of 4 nodes something leans to harm" in decision.message


def test_no_wave_is_passed_before_a_window_of_it_can_have_been_judged() -> None:
    assert (machine.SEEN_S, machine.SEEN_QUICKLY_S) == (20, 15)
    for spec, seen_s in (({}, machine.SEEN_S), ({"takes_back": 6}, machine.SEEN_QUICKLY_S)):
        world = wave_under_judgement(min_judge_s=5, wave_judge_s=5, **spec)
        unseen = world.now + timedelta(seconds=seen_s - 1)
        assert machine.advance(world.state, world.facts(), unseen) is None
        assert machine.advance(world.state, world.facts(), world.now + timedelta(seconds=seen_s)) is not None


def test_a_wave_without_latencies_to_compare_has_the_least_time() -> None:
    world = wave_under_judgement()
    nothing = replace(world.facts(), compares=False)
    assert machine.advance(world.state, nothing, world.now + timedelta(seconds=29)) is None
    assert machine.advance(world.state, nothing, world.now + timedelta(seconds=30)) is not None


def test_a_node_of_a_wave_may_be_away_as_long_as_a_change_may_take() -> None:
    world = wave_under_judgement()
    assert machine.advance(world.state, world.facts(n1={"lost_s": 59.0}), world.now) is None
    goes_back(
        machine.advance(world.state, world.facts(n1={"lost_s": 60.0}), world.now),
        "promotion failed: n1 not confirmed to run revision 7 within 60 s",
        ("n0", "n1"),
        Verdict.BETTER,
    )


def test_a_node_of_a_wave_that_cannot_apply_it_takes_every_node_back_while_it_is_judged() -> None:
    world = wave_under_judgement()
    goes_back(
        machine.advance(world.state, world.facts(n1={"error": "no memory"}), world.now),
        "promotion failed: n1 could not apply it: no memory",
        ("n0", "n1"),
        Verdict.BETTER,
    )


def test_the_last_wave_of_a_take_back_is_not_held_against_the_time_it_ends() -> None:
    world = wave_under_judgement(2, takes_back=6)
    assert world.state.phase is RolloutPhase.PROMOTED
    assert wave_under_judgement(3, takes_back=6).state.phase is RolloutPhase.JUDGING


def test_a_harmless_canary_that_more_traffic_would_decide_is_judged_longer() -> None:
    world = under_judgement(2)
    at_s = {seconds: START + timedelta(seconds=seconds) for seconds in (120, 239, 240)}
    hopeful = replace(world.facts(), decides=True)
    assert machine.advance(world.state, hopeful, at_s[120]) is None
    assert machine.advance(world.state, hopeful, at_s[239]) is None
    for facts, when in ((hopeful, 240), (replace(hopeful, harmless=False), 120), (world.facts(), 120)):
        decision = machine.advance(world.state, facts, at_s[when])
        assert decision is not None and decision.verdict is Verdict.INCONCLUSIVE
    told = under_judgement(2, extended_judge_s=150.0)
    assert machine.advance(told.state, hopeful, START + timedelta(seconds=149)) is None
    assert machine.advance(told.state, hopeful, START + timedelta(seconds=150)) is not None


def test_a_pool_that_is_its_own_canary_is_promoted_without_telling_anybody_again() -> None:
    world = under_judgement(1)
    world.now += timedelta(seconds=30)
    world.advance(world.facts(Verdict.BETTER))
    assert world.decisions[-1] == Decision(
        RolloutPhase.PROMOTING,
        "revision 7 (better) already runs on every node of pool chat",
        verdict=Verdict.BETTER,
        canary_nodes=("n0",),
        told_nodes=("n0",),
    )
    world.advance(world.facts())
    assert world.state.phase is RolloutPhase.PROMOTED


def promoting() -> World:
    world = under_judgement(4)
    world.now += timedelta(seconds=30)
    world.advance(world.facts(Verdict.BETTER))
    assert world.state.told_nodes == ("n0", "n1")
    return world


def test_a_promotion_that_fails_takes_back_every_node_that_was_told() -> None:
    world = promoting()
    goes_back(
        machine.advance(world.state, world.facts(n1={"error": "no memory"}), world.now),
        "promotion failed: n1 could not apply it: no memory",
        ("n0", "n1"),
        Verdict.BETTER,
    )
    assert machine.advance(world.state, world.facts(), world.now + timedelta(seconds=59)) is None
    goes_back(
        machine.advance(world.state, world.facts(), world.now + timedelta(seconds=60)),
        "promotion failed: n1 not confirmed to run revision 7 within 60 s",
        ("n0", "n1"),
        Verdict.BETTER,
    )


def test_a_node_that_left_the_fleet_does_not_hold_up_a_promotion() -> None:
    world = promoting()
    left = Facts(tuple(fact for fact in world.facts().nodes if fact.node != "n1"))
    decision = machine.advance(world.state, left, world.now)
    assert decision is not None and decision.phase is RolloutPhase.JUDGING
    world.take(decision)
    decision = machine.advance(world.state, replace(left, judged=Verdict.NOT_WORSE), world.now + timedelta(seconds=30))
    assert decision is not None and decision.actions == (SetOverride(("n2",), NEW),)


def test_a_rollback_ends_when_everybody_told_runs_the_previous_revision() -> None:
    world = under_judgement(2)
    world.advance(world.facts(Verdict.WORSE))
    state = replace(world.state, message=world.decisions[-1].message)
    assert machine.advance(state, world.facts(), world.now) is None
    world.obey()
    for trouble in ({"connected": False}, {"healthy": False}):
        assert machine.advance(state, world.facts(n0=trouble), world.now) is None
    ended = machine.advance(state, world.facts(n1={"connected": False}), world.now)
    assert ended == Decision(
        RolloutPhase.ROLLED_BACK,
        "pool chat runs revision 3 again: the canary is worse than the control",
        verdict=Verdict.WORSE,
        canary_nodes=("n0",),
        told_nodes=("n0",),
    )


def test_a_rollback_that_nobody_confirms_wants_a_person() -> None:
    world = under_judgement(2)
    world.advance(world.facts(Verdict.WORSE))
    assert machine.advance(world.state, world.facts(), world.now + timedelta(seconds=59)) is None
    ended = machine.advance(world.state, world.facts(), world.now + timedelta(seconds=60))
    assert ended is not None and ended.phase is RolloutPhase.FAILED
    assert ended.message == "n0 could not be confirmed to run revision 3 again within 60 s: a person has to look"


def test_many_nodes_are_named_by_the_first() -> None:
    def told(nodes: int) -> str:
        world = World(nodes, SPEC.model_copy(update={"canary_share": 1.0}))
        return machine.start(world.state, world.facts().nodes).message

    assert told(5).endswith("given to n0, n1, n2, n3, n4")
    assert told(7).endswith("given to n0, n1, n2, n3 and 3 more")


def test_twenty_seconds_out_of_sight_are_too_long_to_be_judged() -> None:
    assert judged_with(lost_s=19.9).state.phase is RolloutPhase.JUDGING
    assert judged_with(lost_s=20.0).state.phase is RolloutPhase.ROLLING_BACK
