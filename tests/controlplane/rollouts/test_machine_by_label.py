"""The machine where a selector chooses the canary and waves go by a label."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.bodies.rollouts import ENDED, RolloutPhase, Verdict
from controlplane.contract.errors import Conflict
from controlplane.rollouts import interventions, machine
from controlplane.rollouts.decision import Facts, SetOverride
from tests.controlplane.rollouts.machine_world import NEW, SPEC, World

BY_REGION = SPEC.model_copy(update={"wave_by": "region", "canary_selector": "gpu=H100"})


def facts(world: World, regions: list[str], canary: set[str], away: str | None, judged: Verdict | None) -> Facts:
    seen = world.facts(judged, **({} if away is None else {away: {"connected": False}}))
    placed = [
        replace(fact, group=region, may_be_canary=fact.node in canary)
        for fact, region in zip(seen.nodes, regions, strict=True)
    ]
    return replace(seen, nodes=tuple(placed))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(["eu", "us", ""]), min_size=1, max_size=9),
    st.sets(st.integers(0, 8), min_size=1),
    st.sampled_from([[], ["us"], ["us", "eu"]]),
    st.lists(st.none() | st.integers(0, 8), max_size=30),
)
def test_a_region_is_done_before_the_next(
    regions: list[str], chosen: set[int], order: list[str], away: list[int | None]
) -> None:
    world = World(len(regions), BY_REGION.model_copy(update={"wave_order": order}))
    region = dict(zip(world.names, regions, strict=True))
    canary = {f"n{number % len(regions)}" for number in chosen}
    world.take(machine.start(world.state, facts(world, regions, canary, None, None).nodes))
    assert set(world.state.canary_nodes) <= canary
    expected = next(one for one in [*order, "eu", "us", ""] if one in {region[node] for node in canary})
    assert {region[node] for node in world.state.canary_nodes} == {expected}
    gone = iter(away)
    for _ in range(200):
        if world.state.phase in ENDED:
            break
        world.now += timedelta(seconds=31)
        world.obey()
        number = next(gone, None)
        # What is not told yet may be away; a told one that stays away would be taken back, which is not the point here.
        absent = None if number is None else f"n{number % len(regions)}"
        absent = None if absent in world.state.told_nodes else absent
        before = world.state.told_nodes
        seen = facts(world, regions, canary, absent, Verdict.NOT_WORSE)
        world.advance(seen)
        told = world.state.told_nodes[len(before) :]
        if told:
            assert len({region[node] for node in told}) == 1, "no wave mixes regions"
            begun = {region[node] for node in before}
            left = {region[f.node] for f in seen.nodes if f.connected and f.node not in before}
            assert region[told[0]] in begun or not begun & left, "a region is done before the next"
    assert world.state.phase is RolloutPhase.PROMOTED and world.pool == NEW
    assert len(world.state.told_nodes) == len(set(world.state.told_nodes))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(["eu", "us", ""]), min_size=2, max_size=6),
    st.sampled_from([0.0, 20.0, 100.0]),
    st.booleans(),
    st.lists(st.none() | st.integers(0, 5), max_size=40),
)
def test_between_two_regions_it_is_watched_on_and_a_person_resumes(
    regions: list[str], soak_s: float, pause: bool, away: list[int | None]
) -> None:
    world = World(
        len(regions), SPEC.model_copy(update={"wave_by": "region", "wave_soak_s": soak_s, "wave_pause": pause})
    )
    region = dict(zip(world.names, regions, strict=True))
    everybody = set(world.names)
    world.take(machine.start(world.state, facts(world, regions, everybody, None, None).nodes))
    gone, between = iter(away), 0
    for _ in range(400):
        if world.state.phase in ENDED:
            break
        world.now += timedelta(seconds=31)
        world.obey()
        before = world.state
        if before.phase is RolloutPhase.PAUSED:
            assert pause and before.message.endswith(machine.PAUSED_BY_WAVE)
            world.advance(facts(world, regions, everybody, None, Verdict.NOT_WORSE))
            assert world.state is before, "it waits until somebody resumes"
            world.take(interventions.resume(before, "me"))
            continue
        number = next(gone, None)
        absent = None if number is None else f"n{number % len(regions)}"
        absent = None if absent in before.told_nodes else absent
        world.advance(facts(world, regions, everybody, absent, Verdict.NOT_WORSE))
        told = world.state.told_nodes[len(before.told_nodes) :]
        if told and region[told[0]] not in {region[node] for node in before.told_nodes}:
            between += 1
            assert before.step_since is not None
            assert before.phase is RolloutPhase.SOAKING or not (soak_s or pause)
            assert (world.now - before.step_since).total_seconds() >= soak_s
            assert before.message.startswith("resumed by me") or not pause
    assert world.state.phase is RolloutPhase.PROMOTED
    assert between == len(set(regions)) - 1 or any(number is not None for number in away)


def test_harm_that_shows_between_two_regions_takes_all_back() -> None:
    world = World(3, SPEC.model_copy(update={"wave_by": "region", "wave_soak_s": 600.0}))
    regions, everybody = ["eu", "us", "us"], {"n0", "n1", "n2"}
    world.take(machine.start(world.state, facts(world, regions, {"n0"}, None, None).nodes))
    for _ in range(2):
        world.now += timedelta(seconds=31)
        world.obey()
        world.advance(facts(world, regions, everybody, None, Verdict.NOT_WORSE))
    assert world.state.phase is RolloutPhase.SOAKING and "watched on for 600 s" in world.state.message
    world.now += timedelta(seconds=300)
    world.advance(facts(world, regions, everybody, None, Verdict.NOT_WORSE))
    assert world.state.phase is RolloutPhase.SOAKING and world.state.told_nodes == ("n0",)
    world.advance(facts(world, regions, everybody, None, Verdict.WORSE))
    assert world.state.phase is RolloutPhase.ROLLING_BACK


def test_where_nothing_that_matches_is_there_it_does_not_begin() -> None:
    world = World(3, BY_REGION)
    with pytest.raises(
        Conflict, match="of the 3 connected, healthy serving nodes of pool 'chat' none matches gpu=H100"
    ):
        machine.start(world.state, facts(world, ["eu"] * 3, set(), None, None).nodes)
    with pytest.raises(Conflict, match="of the 2 connected"):
        machine.start(world.state, facts(world, ["eu"] * 3, {"n1"}, "n1", None).nodes)


def test_an_emergency_goes_by_no_label() -> None:
    world = World(3, BY_REGION.model_copy(update={"emergency": True}))
    decision = machine.start(world.state, facts(world, ["eu", "us", ""], set(), None, None).nodes)
    assert decision.told_nodes == ("n0", "n1", "n2")
    assert not any(isinstance(action, SetOverride) for action in decision.actions)


def test_a_node_that_comes_back_just_before_the_promotion_is_told() -> None:
    world = World(2)
    alone = ["", ""]
    world.take(machine.start(world.state, facts(world, alone, {"n0"}, None, None).nodes))
    for away in ("n1", "n1"):
        world.now += timedelta(seconds=31)
        world.obey()
        world.advance(facts(world, alone, {"n0"}, away, Verdict.NOT_WORSE))
    assert world.state.phase is RolloutPhase.PROMOTING and world.state.told_nodes == ("n0",)
    world.advance(facts(world, alone, {"n0"}, None, Verdict.NOT_WORSE))
    assert world.state.phase is RolloutPhase.PROMOTING and world.state.told_nodes == ("n0", "n1")
