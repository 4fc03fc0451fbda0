"""The lives that are injected into are what they say, hold with a fault in each, and what is looked at can be wrong."""

import logging
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from agents.agent.control.lease import Lease
from agents.host.boot_clock import BootTime
from benchmarks.rollout_chaos.empty_databases import Files
from benchmarks.rollout_chaos.life_invariants import Entry, Invariants, Look, NodeSeen, RolloutSeen
from benchmarks.rollout_chaos.life_scenarios import BY_NAME, SCENARIOS
from benchmarks.rollout_chaos.many_lives import live, tell
from benchmarks.rollout_chaos.planned_faults import Fault, Kind, Plan, moves, pairs, plan_of, quiet_plan
from benchmarks.rollout_chaos.rollout_life import Lived
from benchmarks.rollout_chaos.scripted_service import LEASE_S
from controlplane.contract.bodies.rollouts import RolloutPhase as P
from controlplane.rollouts import store


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What is injected is logged by the product with its traceback."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def lived(folder: Path, *plans: Plan) -> list[Lived]:
    return live(plans, Files(folder), folder, lambda _: None)


@pytest.mark.slow
def test_each_transition_is_met_by_a_life_without_a_fault(tmp_path: Path) -> None:
    left, few = set(moves()), []
    while left:
        few.append(max(SCENARIOS, key=lambda one: len(left & set(one.passes))))
        left -= set(few[-1].passes)
    lives = lived(tmp_path, *map(quiet_plan, few))
    for one in lives:
        assert (tuple(one.moves), one.found) == (one.plan.scenario.passes, []), one.plan.scenario.name
    assert {move for one in lives for move in one.moves} == set(moves())


def test_every_transition_is_planned_with_every_fault_and_the_same_each_time() -> None:
    assert pairs() == tuple((move, kind) for move in moves() for kind in Kind)
    for number in (0, 100, len(pairs()), len(pairs()) + 17):
        one, other = plan_of(3, number), plan_of(3, number)
        assert (str(one), one.chance.random()) == (str(other), other.chance.random())


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(Kind))
def test_a_fault_of_each_kind_is_injected_and_nothing_is_found(tmp_path: Path, kind: Kind) -> None:
    fault = Fault(kind, (P.CANARY, P.JUDGING))
    (one,) = lived(tmp_path, replace(quiet_plan(BY_NAME["one node"]), faults=(fault,)))
    assert [fault.kind for fault in one.injected] == [kind]
    assert one.found == []


@pytest.mark.slow
def test_connected_agents_are_answered_from_memory_and_polling_ones_never(tmp_path: Path) -> None:
    plans = [replace(quiet_plan(BY_NAME["one node"]), chance=random.Random(seed)) for seed in range(8)]
    beats = [one.beats for one in lived(tmp_path, *plans)]
    polls = [random.Random(seed).random() < 0.3 for seed in range(8)]
    assert [count == 0 for count in beats] == polls and {True, False} == set(polls)


@pytest.mark.slow
def test_a_run_is_the_same_again(tmp_path: Path) -> None:
    number = pairs().index(((P.CANARY, P.JUDGING), Kind.AMIDST))
    first, again = lived(tmp_path, plan_of(1, number), plan_of(1, number))
    assert replace(first, plan=again.plan, injected=[]) == replace(again, injected=[])


@pytest.mark.slow
def test_a_lease_that_never_ends_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: Lease, __: BootTime) -> float:
        return LEASE_S

    monkeypatch.setattr(Lease, "left_s", never)
    (one,) = lived(tmp_path, quiet_plan(BY_NAME["way back not confirmed"]))
    assert any("beyond its lease" in said for said in one.found), one.found


@pytest.mark.slow
def test_an_entry_that_is_lost_is_found_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    genuine = store.record

    def forgetful(session: object, row: object, verb: str, *said: object, **evidence: object) -> None:
        if verb != P.JUDGING.value:
            genuine(session, row, verb, *said, **evidence)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "record", forgetful)
    lives = lived(tmp_path, quiet_plan(BY_NAME["one node"]))
    assert any("steps, the ledger has" in said for said in lives[0].found)
    tell(lives)
    assert "**1 runs with a violation**" in capsys.readouterr().out


# -- the invariants by themselves --------------------------------------------------------------------------------------

OLD, NEW = 1, 2
SEEN = RolloutSeen(7, "chat", P.CANARY, 1, holds_pool=True, revision=NEW, told=("a",))
ADOPTED = Entry("revision.adopted", "pool/chat", {"revision": OLD})
ABOUT = {"revision": NEW, "previous_revision": OLD, "emergency": False}


def entry(verb: str) -> Entry:
    return Entry(f"rollout.{verb}", "rollout/7", ABOUT)


BEGUN = (ADOPTED, entry("created"), entry("started"), entry("canary"))
GOOD = Look(100.0, OLD, (SEEN,), (NodeSeen("a", NEW), NodeSeen("b", OLD)), BEGUN)


def found(look: Look) -> list[str]:
    return Invariants(LEASE_S + 10.0, 10.0).look(look)


def test_a_good_world_is_in_order() -> None:
    assert found(GOOD) == []


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (replace(GOOD, rollouts=(SEEN, replace(SEEN, id=8))), "are under way in one pool"),
        (replace(GOOD, rollouts=(replace(SEEN, holds_pool=False),)), "holds its pool: False"),
        (replace(GOOD, entries=BEGUN[:-1]), "has taken 1 steps, the ledger has 0"),
        (replace(GOOD, entries=(*BEGUN, BEGUN[-1])), "has taken 1 steps, the ledger has 2"),
        (replace(GOOD, entries=(*BEGUN[:2], *BEGUN[1:])), "created 2"),
        (replace(GOOD, rollouts=(replace(SEEN, phase=P.JUDGING),)), "the ledger's last is canary"),
        (replace(GOOD, pool_revision=NEW), "the pool's revision is 2, by the ledger it is 1"),
        (replace(GOOD, rollouts=(replace(SEEN, judged=(4, 3)),)), "has judged 4 windows where 3 have closed"),
        (replace(GOOD, nodes=(NodeSeen("a", NEW, silent_s=LEASE_S + 11, linked=False),)), "beyond its lease"),
        (replace(GOOD, entries=(*BEGUN, entry("soaking"))), "went from canary to soaking"),
        (
            Look(100.0, NEW, (), (NodeSeen("a", NEW), NodeSeen("b", OLD)), (*BEGUN, entry("promoted"))),
            "was promoted while b did not run it",
        ),
    ],
)
def test_a_broken_world_is_told_of(broken: Look, says: str) -> None:
    assert any(says in one for one in found(broken)), found(broken)


def test_an_unjudged_node_that_no_rollout_holds_has_its_lease_and_no_more() -> None:
    invariants = Invariants(LEASE_S + 10.0, 10.0)
    ended = (replace(SEEN, phase=P.FAILED, step=3, holds_pool=False),)
    alone = (NodeSeen("a", NEW, silent_s=50.0, linked=False),)
    entries = (*BEGUN, entry("rolling_back"), entry("failed"))
    assert invariants.look(Look(100.0, OLD, ended, alone, entries)) == []
    assert invariants.look(Look(100.0 + LEASE_S, OLD, ended, alone, ())) == []
    late = invariants.look(Look(111.0 + LEASE_S, OLD, ended, alone, ()))
    assert late == ["a runs revision 2, which no rollout has told it, and is cut off, beyond its lease"]


def test_a_fault_says_where_it_is() -> None:
    assert str(Fault(Kind.AFTER, (P.CANARY, P.JUDGING), 2)) == "dies after it at canary -> judging (time 2)"
