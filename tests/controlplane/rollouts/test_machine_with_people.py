"""The machine with stages, soaks, freeze windows, validation and people who pause, resume and abort: every path ends
once they let it, and nothing moves while it is paused but a rollback."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.bodies.rollouts import (
    ENDED,
    WAITS_FOR_A_PERSON,
    OnInconclusive,
    RolloutPhase,
    Stage,
    Verdict,
)
from controlplane.contract.changes.findings import Finding
from controlplane.contract.errors import Conflict
from controlplane.rollouts import interventions, machine
from controlplane.rollouts.decision import ClearOverrides, Decision, SetOverride, SetPoolRevision
from controlplane.rollouts.stages import alike, sizes
from tests.controlplane.rollouts.machine_world import NEW, OLD, SPEC, World

TEN_NODES = [Stage(share=0), Stage(share=0.1), Stage(share=0.5, pause=True), Stage(share=1)]
HOLDS = SPEC.model_copy(update={"on_inconclusive": OnInconclusive.HOLD})

specs = st.builds(
    lambda stages, step, soak_s, hold: SPEC.model_copy(
        update={"stages": stages, "max_step_share": step, "soak_s": soak_s, "on_inconclusive": hold}
    ),
    st.sampled_from([[], TEN_NODES, [Stage(share=0.3), Stage(share=1, pause=True)]]),
    st.sampled_from([None, 0.2, 0.5]),
    st.sampled_from([0.0, 45.0]),
    st.sampled_from(list(OnInconclusive)),
)
trouble = st.fixed_dictionaries(
    {
        "connected": st.sampled_from([True, True, True, False]),
        "error": st.sampled_from([None, None, None, None, None, None, None, "no memory"]),
    }
)
step = st.tuples(
    st.sampled_from([None, Verdict.NOT_WORSE, Verdict.NOT_WORSE, Verdict.BETTER, Verdict.WORSE]),
    st.dictionaries(st.sampled_from(["n0", "n1", "n2"]), trouble, max_size=1),
    st.sampled_from([None, None, None, "frozen until Monday"]),
    st.sampled_from([None, None, None, None, "pause", "resume", "resume", "abort"]),
    st.integers(1, 70),  # Seconds until the next.
)


def intervene(world: World, what: str | None) -> None:
    try:
        match what:
            case "pause":
                decision = interventions.pause(world.state, "ann")
            case "resume":
                decision = interventions.resume(world.state, "ann")
            case "abort":
                decision = interventions.abort(world.state)
            case _:
                return
    except Conflict:
        return
    if decision is not None:
        world.take(decision)


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 10), specs, st.booleans(), st.lists(step, max_size=60))
def test_every_path_ends_once_people_let_it(nodes, spec, validates, steps) -> None:  # type: ignore[no-untyped-def]
    world = World(nodes, spec)
    world.take(machine.start(world.state, world.facts().nodes, validates=validates))
    for judged, each, closed, asked, seconds in steps:
        if world.state.phase in ENDED:
            break
        world.now += timedelta(seconds=seconds)
        world.obey()
        each = {name: values for name, values in each.items() if name in world.names}
        before, made = world.state.phase, len(world.decisions)
        world.advance(replace(world.facts(judged, **each), closed=closed))
        for decision in world.decisions[made:]:
            _moves_as_it_may(before, decision, closed)
        intervene(world, asked)
    for _ in range(200):  # Left alone, with whatever waits for a person resumed, it ends by its time-outs.
        if world.state.phase in ENDED:
            break
        if world.state.phase in WAITS_FOR_A_PERSON:
            world.take(interventions.resume(world.state, "ann"))
        world.now += timedelta(seconds=61)
        world.obey()
        world.advance(world.facts(Verdict.NOT_WORSE))
    assert world.state.phase in ENDED
    _each_step_is_bounded(world)
    promoted = world.state.phase is RolloutPhase.PROMOTED
    assert world.pool == (NEW if promoted else OLD) and not world.overrides
    assert world.pools_set.count(NEW) == int(promoted), "the pool's revision changes at the end or never"
    if promoted:
        assert world.state.verdict in (Verdict.BETTER, Verdict.NOT_WORSE)
        assert all(world.runs[name] == NEW for name in world.state.told_nodes)


def _moves_as_it_may(before: RolloutPhase, decision: Decision, closed: str | None) -> None:
    back = decision.phase is RolloutPhase.ROLLING_BACK
    if before is RolloutPhase.PAUSED:
        assert back, "while paused nothing moves but a rollback"
    if closed is not None:
        widens = any(isinstance(action, SetOverride | SetPoolRevision) for action in decision.actions)
        assert back or not widens, "no stage begins in a freeze window"
    if decision.phase is RolloutPhase.PAUSED:
        assert decision.resumes is not None and not decision.actions


def _each_step_is_bounded(world: World) -> None:
    """Who is told at once is no more than the spec says, and the sizes are those that were told before the start."""
    planned, told = sizes(world.state.spec, alike(len(world.names))), []
    for decision in world.decisions:
        if any(isinstance(action, SetOverride) for action in decision.actions):
            told.append(len(decision.told_nodes))
    assert told == planned[: len(told)]
    share = world.state.spec.max_step_share
    if share is not None:
        steps = [after - before for before, after in zip([0, *told], told, strict=False)]
        assert all(step <= max(1, share * len(world.names) + 1e-9) for step in steps)


def judged(nodes: int = 10, **spec: object) -> World:
    """A world whose canary is judged."""
    world = World(nodes, HOLDS.model_copy(update=spec))
    world.take(machine.start(world.state, world.facts().nodes))
    world.obey()
    world.advance(world.facts())
    assert world.state.phase is RolloutPhase.JUDGING
    return world


@pytest.mark.parametrize(
    ("nodes", "step", "expected"),
    [
        (10, None, [1, 2, 5, 10]),
        (100, None, [1, 10, 50, 100]),
        (100, 0.2, [1, 10, 30, 50, 70, 90, 100]),
        (3, None, [1, 2, 3]),
        (1, None, [1]),
    ],
)
def test_stages_are_one_a_tenth_half_and_all(nodes: int, step: float | None, expected: list[int]) -> None:
    spec = HOLDS.model_copy(update={"stages": TEN_NODES, "max_step_share": step})
    assert sizes(spec, alike(nodes)) == expected


def test_without_stages_waves_are_equal() -> None:
    assert sizes(HOLDS, alike(8)) == [2, 4, 6, 8]
    assert sizes(HOLDS.model_copy(update={"emergency": True}), alike(8)) == [8]


def test_an_undecided_canary_without_harm_is_held_for_a_person_and_judged_on_when_resumed() -> None:
    world = judged()
    world.now += timedelta(seconds=120)
    world.advance(world.facts())
    held = world.decisions[-1]
    assert (held.phase, held.verdict, held.actions) == (RolloutPhase.PAUSED, Verdict.INCONCLUSIVE, ())
    assert held.message == (
        "inconclusive: not enough evidence within 120 s, and no harm: held for a person to decide: resume to judge on, "
        "or abort to go back"
    )
    world.now += timedelta(days=3)
    world.advance(world.facts(Verdict.BETTER))
    assert world.decisions[-1] is held, "good news do not promote what waits for a person"
    world.take(interventions.resume(world.state, "ann"))
    assert (world.state.phase, world.state.verdict) == (RolloutPhase.JUDGING, None)
    assert world.decisions[-1].message == "resumed by ann: judging again"
    world.now += timedelta(seconds=30)
    world.advance(world.facts(Verdict.BETTER))
    assert world.state.phase is RolloutPhase.PROMOTING


def test_one_that_leans_to_harm_is_not_held() -> None:
    world = judged()
    world.now += timedelta(seconds=120)
    world.advance(replace(world.facts(), harmless=False))
    assert world.state.phase is RolloutPhase.ROLLING_BACK


def test_harm_and_failure_take_back_what_is_paused() -> None:
    for facts, why in (
        ({"judged": Verdict.WORSE}, "with revision 7 on 2 of 10 nodes pool chat is worse than the rest"),
        ({"n0": {"error": "no memory"}}, "n0 could not apply it: no memory"),
    ):
        world = judged()
        decision = interventions.pause(world.state, "ann", "lunch")
        assert decision is not None and decision.message == "paused by ann while judging: lunch"
        world.take(decision)
        assert interventions.pause(world.state, "ann") is None
        world.advance(world.facts())
        assert world.state.phase is RolloutPhase.PAUSED
        world.advance(world.facts(**facts))  # type: ignore[arg-type]
        assert world.decisions[-1].message == f"{why}; going back to revision 3"


def test_a_stage_that_asks_for_it_waits_for_a_person_and_then_soaks() -> None:
    world = judged(stages=[Stage(share=0.1, pause=True), Stage(share=1)], soak_s=45.0)
    world.now += timedelta(seconds=30)
    world.advance(world.facts(Verdict.BETTER))
    assert (world.state.phase, world.state.resumes) == (RolloutPhase.PAUSED, RolloutPhase.SOAKING)
    assert "1 of 10 nodes run revision 7 (better); its stage waits for a person" in world.decisions[-1].message
    world.take(interventions.resume(world.state, "ann"))
    assert (world.state.phase, world.state.verdict) == (RolloutPhase.SOAKING, Verdict.BETTER)
    world.now += timedelta(seconds=44)
    world.advance(world.facts())
    assert world.state.phase is RolloutPhase.SOAKING
    world.now += timedelta(seconds=1)
    world.advance(world.facts())
    assert world.state.phase is RolloutPhase.PROMOTING and len(world.state.told_nodes) == 10


def test_no_stage_begins_in_a_freeze_window_and_the_reason_is_told() -> None:
    world = judged()
    world.now += timedelta(seconds=30)
    world.advance(replace(world.facts(Verdict.BETTER), closed="frozen until Monday: fair"))
    assert world.decisions[-1].message == (
        "2 of 10 nodes run revision 7 (better) and are watched on; no stage begins: frozen until Monday: fair"
    )
    world.now += timedelta(days=2)
    world.advance(replace(world.facts(), closed="frozen until Monday: fair"))
    assert world.state.phase is RolloutPhase.SOAKING
    world.advance(world.facts())
    assert world.state.phase is RolloutPhase.PROMOTING


def test_what_is_found_by_validation_ends_it_before_anything_moves() -> None:
    world = World(2, HOLDS)
    world.take(machine.start(world.state, world.facts().nodes, validates=True))
    assert (world.state.phase, world.overrides) == (RolloutPhase.VALIDATING, {})
    waiting = replace(world.facts(), unheard=("n1",))
    assert machine.advance(world.state, waiting, world.now) is None
    late = machine.advance(world.state, waiting, world.now + timedelta(seconds=60))
    assert late is not None and late.phase is RolloutPhase.FAILED
    assert late.message.startswith("n1: effective: what it runs was not heard within 60 s")
    said = tuple(
        Finding(
            node=node, field="knobs.quantization", refuses=True, problem="it has no weights in fp8", mend="one of int8"
        )
        for node in ("n0", "n1")
    )
    found = machine.advance(world.state, replace(waiting, findings=said), world.now)
    assert found is not None and (found.phase, found.actions) == (RolloutPhase.FAILED, ())
    assert found.message == (
        "revision 7 cannot run in pool chat: n0: knobs.quantization: it has no weights in fp8; one of int8; and 1 more"
        ": nothing was changed"
    )
    assert found.findings == said
    assert machine.advance(world.state, replace(world.facts(), closed="frozen"), world.now) is None
    gone = machine.advance(world.state, world.facts(n0={"connected": False}, n1={"connected": False}), world.now)
    assert gone is not None and gone.phase is RolloutPhase.FAILED and "no connected, healthy" in gone.message
    costs = Finding(node="n1", field="effective.costs", refuses=False, problem="it needs a restart")
    world.advance(replace(world.facts(), findings=(costs,)))
    assert (world.state.phase, world.decisions[-1].findings) == (RolloutPhase.CANARY, (costs,))


def test_each_intervention_is_refused_where_it_makes_no_sense() -> None:
    world = World(2, HOLDS)
    for refused in (
        lambda: interventions.abort(world.state),
        lambda: interventions.pause(world.state, "ann"),
        lambda: interventions.resume(world.state, "ann"),
    ):
        with pytest.raises(Conflict, match="a rollout that is proposed cannot be"):
            refused()
    world.take(machine.start(world.state, world.facts().nodes))
    decision = interventions.abort(world.state)
    assert decision is not None and decision.actions == (SetPoolRevision(OLD), ClearOverrides(("n0",)))
    world.take(decision)
    assert interventions.abort(world.state) is None
    emergency = World(2, HOLDS.model_copy(update={"emergency": True}))
    emergency.take(machine.start(emergency.state, emergency.facts().nodes))
    with pytest.raises(Conflict, match="an emergency is told to all at once"):
        interventions.pause(emergency.state, "ann")
