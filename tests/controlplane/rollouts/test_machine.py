"""The machine, driven by arbitrary facts: every path ends, and the promises hold on each."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.bodies.rollouts import ENDED, RolloutCreate, RolloutPhase, Verdict
from controlplane.contract.errors import Conflict
from controlplane.rollouts import machine
from controlplane.rollouts.decision import (
    ClearOverrides,
    Decision,
    Facts,
    NodeFact,
    SetOverride,
    SetPoolRevision,
    State,
)

START = datetime(2025, 3, 1, tzinfo=UTC)
OLD, NEW = 3, 7
SPEC = RolloutCreate(
    pool="chat", revision=NEW, min_judge_s=30, max_judge_s=120, apply_timeout_s=60, canary_share=0.25, reason="x"
)


class World:
    """A pool as the actions leave it, whose nodes obey, lag or fail as told."""

    def __init__(self, nodes: int, spec: RolloutCreate = SPEC, previous: int | None = OLD) -> None:
        self.names = [f"n{number}" for number in range(nodes)]
        self.pool: int | None = previous
        self.overrides: dict[str, int] = {}
        self.runs: dict[str, int | None] = {name: previous for name in self.names}
        self.state = State(RolloutPhase.PROPOSED, spec, previous_revision=previous)
        self.now = START
        self.decisions: list[Decision] = []
        self.pools_set: list[int] = []

    def desired(self, name: str) -> int | None:
        return self.overrides.get(name, self.pool)

    def take(self, decision: Decision) -> None:
        assert decision.phase in machine.TRANSITIONS[self.state.phase]
        for action in decision.actions:
            match action:
                case SetOverride(nodes, revision):
                    self.overrides |= dict.fromkeys(nodes, revision)
                case ClearOverrides(nodes):
                    for name in nodes:
                        self.overrides.pop(name, None)
                case SetPoolRevision(revision):
                    self.pool = revision
                    self.pools_set.append(revision)
        self.decisions.append(decision)
        self.state = State(
            phase=decision.phase,
            spec=self.state.spec,
            verdict=decision.verdict,
            previous_revision=self.state.previous_revision,
            canary_nodes=decision.canary_nodes,
            told_nodes=decision.told_nodes,
            step_since=self.now,
        )

    def facts(self, judged: Verdict | None = None, **each: dict[str, object]) -> Facts:
        fact = {"connected": True, "healthy": True, "error": None, "lost_s": 0.0}
        return Facts(
            tuple(
                NodeFact(
                    node=name,
                    runs_new=self.runs[name] == NEW,
                    runs_previous=self.runs[name] == OLD,
                    **{**fact, **each.get(name, {})},  # type: ignore[arg-type]
                )
                for name in self.names
            ),
            judged,
        )

    def obey(self) -> None:
        self.runs = {name: self.desired(name) for name in self.names}

    def advance(self, facts: Facts) -> None:
        decision = machine.advance(self.state, facts, self.now)
        if decision is not None:
            self.take(decision)


node_trouble = st.fixed_dictionaries(
    {
        "connected": st.sampled_from([True, True, True, False]),
        "healthy": st.sampled_from([True, True, True, False]),
        "error": st.sampled_from([None, None, None, None, None, "no memory"]),
        "lost_s": st.sampled_from([0.0, 0.0, 5.0, 30.0]),
    }
)
step = st.tuples(
    st.sampled_from([None, Verdict.BETTER, Verdict.NOT_WORSE, Verdict.WORSE]),
    st.dictionaries(st.sampled_from(["n0", "n1", "n2", "n3"]), node_trouble, max_size=2),
    st.booleans(),  # Do the nodes obey in this step?
    st.integers(1, 40),  # Seconds until the next.
)


@settings(max_examples=300, deadline=None)
@given(st.integers(1, 4), st.booleans(), st.lists(step, max_size=40), st.integers(0, 60))
def test_every_path_ends_and_keeps_the_promises(
    nodes: int,
    emergency: bool,
    steps: list[tuple[Verdict | None, dict[str, dict[str, object]], bool, int]],
    cancel: int,
) -> None:
    world = World(nodes, SPEC.model_copy(update={"emergency": emergency}))
    world.take(machine.start(world.state, world.facts().nodes))
    seen: list[Verdict | None] = []
    for place, (judged, trouble, obey, seconds) in enumerate(steps):
        if world.state.phase in ENDED:
            break
        if place == cancel:
            decision = machine.cancel(world.state)
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
    if world.state.phase is RolloutPhase.PROMOTED:
        assert world.pool == NEW
        assert world.state.verdict in ((Verdict.UNJUDGED,) if emergency else (Verdict.BETTER, Verdict.NOT_WORSE))
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
            machine.cancel(state)
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
        ({"lost_s": machine.LOST_GRACE_S}, "no longer runs the revision"),
        ({"lost_s": machine.LOST_GRACE_S, "connected": False}, "is disconnected"),
    ],
)
def test_a_canary_that_cannot_be_judged_any_more_is_taken_back(trouble: dict[str, object], said: str) -> None:
    world = judged_with(**trouble)
    assert world.state.phase is RolloutPhase.ROLLING_BACK
    assert said in world.decisions[-1].message


def test_a_canary_that_is_away_for_a_moment_is_waited_for() -> None:
    world = judged_with(lost_s=machine.LOST_GRACE_S - 1)
    assert world.state.phase is RolloutPhase.JUDGING
