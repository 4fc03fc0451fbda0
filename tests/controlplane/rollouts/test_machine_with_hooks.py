"""The machine where hooks must confirm: when they are asked, that it waits for them, and that it goes back where one
says so."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.contract.bodies.rollouts import RolloutPhase, Verdict
from controlplane.rollouts import machine
from controlplane.rollouts.decision import ClearOverrides, Facts, Gate, SetPoolRevision
from tests.controlplane.rollouts.machine_world import NEW, OLD, SPEC, World

WAITS = Gate(waits="hook change board has not answered", unasked=(4,))
HALTED = Gate(waits="hook change board wants it to wait: not now")
SILENT = Gate(back="hook change board was silent for 60 s")


def validating(nodes: int = 4) -> World:
    world = World(nodes)
    world.take(machine.start(world.state, world.facts().nodes, validates=True))
    return world


def soaking(soak_s: float = 45.0) -> World:
    """A canary that was judged better, a moment ago."""
    world = World(4, SPEC.model_copy(update={"soak_s": soak_s}))
    world.take(machine.start(world.state, world.facts().nodes))
    world.obey()
    world.advance(world.facts())
    assert world.state.phase is RolloutPhase.JUDGING
    world.now += timedelta(seconds=30)
    world.advance(replace(world.facts(Verdict.BETTER), gate=WAITS))
    assert world.state.phase is RolloutPhase.SOAKING
    return world


def after(world: World, seconds: float, facts: Facts) -> RolloutPhase:
    """The phase after so long."""
    world.now += timedelta(seconds=seconds)
    world.advance(facts)
    return world.state.phase


def test_without_validation_nothing_is_validated() -> None:
    world = World(4)
    world.take(machine.start(world.state, world.facts().nodes))
    assert world.state.phase is RolloutPhase.CANARY


def test_a_validated_rollout_waits_for_its_hooks_and_begins_when_they_agree() -> None:
    world = validating()
    for gate in (WAITS, HALTED):
        assert after(world, 3600, replace(world.facts(), gate=gate)) is RolloutPhase.VALIDATING
    assert after(world, 1, world.facts()) is RolloutPhase.CANARY
    assert world.overrides == {"n0": NEW}


def test_a_hook_that_ends_it_before_it_has_begun_changes_nothing() -> None:
    world = validating()
    assert after(world, 1, replace(world.facts(), gate=SILENT)) is RolloutPhase.FAILED
    assert world.decisions[-1].message == "hook change board was silent for 60 s: nothing was changed"
    assert (world.decisions[-1].actions, world.overrides, world.pool) == ((), {}, OLD)


def test_while_it_is_closed_no_hook_ends_it() -> None:
    world = validating()
    closed = replace(world.facts(), gate=SILENT, closed="frozen until Monday")
    assert after(world, 1, closed) is RolloutPhase.VALIDATING


@pytest.mark.parametrize(("soak_s", "said"), [(45.0, " and are watched on for 45 s; "), (0.0, " and are watched on; ")])
def test_what_soaks_tells_for_how_long_and_for_which_hook_it_waits(soak_s: float, said: str) -> None:
    world = soaking(soak_s)
    assert world.decisions[-1].message == f"1 of 4 nodes run revision 7 (better){said}{WAITS.waits}"


def test_what_has_soaked_waits_for_its_hooks_and_goes_on_when_they_agree() -> None:
    world = soaking()
    for gate in (WAITS, HALTED):
        assert after(world, 3600, replace(world.facts(), gate=gate)) is RolloutPhase.SOAKING
    assert after(world, 0, world.facts()) is RolloutPhase.PROMOTING
    assert len(world.state.told_nodes) > 1


def test_a_hook_that_says_so_takes_back_what_has_soaked_and_not_before() -> None:
    world = soaking()
    assert after(world, 44, replace(world.facts(), gate=SILENT)) is RolloutPhase.SOAKING
    assert after(world, 1, replace(world.facts(), gate=SILENT)) is RolloutPhase.ROLLING_BACK
    back = world.decisions[-1]
    assert back.message == "hook change board was silent for 60 s; going back to revision 3"
    assert (back.verdict, back.actions) == (Verdict.BETTER, (SetPoolRevision(OLD), ClearOverrides(("n0",))))


def test_harm_and_silence_of_a_node_need_no_hook() -> None:
    world = soaking()
    assert after(world, 1, replace(world.facts(Verdict.WORSE), gate=WAITS)) is RolloutPhase.ROLLING_BACK
    assert world.decisions[-1].verdict is Verdict.WORSE
    world = validating()
    unheard = replace(world.facts(), gate=WAITS, unheard=("n1",))
    assert after(world, 59, unheard) is RolloutPhase.VALIDATING
    assert after(world, 1, unheard) is RolloutPhase.FAILED


def test_hooks_are_asked_when_nothing_else_holds_it() -> None:
    asking = validating()
    facts = replace(asking.facts(), gate=WAITS)
    assert machine.asks(asking.state, facts, asking.now)
    for holds in (
        replace(facts, gate=HALTED),  # All have been asked.
        replace(facts, closed="frozen until Monday"),
        replace(facts, unheard=("n1",)),
        replace(facts, nodes=()),  # It ends, whatever they say.
    ):
        assert not machine.asks(asking.state, holds, asking.now)
    world = soaking()
    facts = replace(world.facts(), gate=WAITS)
    assert not machine.asks(world.state, facts, world.now + timedelta(seconds=44))
    assert machine.asks(world.state, facts, world.now + timedelta(seconds=45))
    harmed = replace(world.facts(Verdict.WORSE), gate=WAITS)
    assert not machine.asks(world.state, harmed, world.now + timedelta(seconds=45))
    begun = World(4)
    begun.take(machine.start(begun.state, begun.facts().nodes))
    begun.obey()
    assert not machine.asks(begun.state, replace(begun.facts(), gate=WAITS), begun.now), "a canary asks nobody"
