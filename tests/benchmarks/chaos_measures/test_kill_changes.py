"""What an engine ran is held against the ledger: canaries from their start, others from the judgement, nothing else."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from benchmarks.chaos_measures.kill_changes import InForce, mistold, unjudged
from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.bodies.nodes import EffectiveConfig, NodeView
from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate, RolloutPhase, Verdict
from controlplane.contract.knobs import EngineConfig

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)
BASELINE, OWN = 1, EngineConfig()


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


def ran(seconds: float, revision: int) -> InForce:
    return InForce(at(seconds), revision, EngineConfig(max_num_seqs=10 + revision))


def rollout(verdict: Verdict | None, canary: str = "a") -> Rollout:
    return Rollout(
        id=3,
        phase=RolloutPhase.JUDGING,
        verdict=verdict,
        spec=RolloutCreate(pool="real", revision=2),
        canary_nodes=[canary],
        created_by="x",
        created_at=at(0),
        started_at=at(10),
    )


def entry(seconds: float, kind: str) -> LedgerEntry:
    return LedgerEntry(id=int(seconds), time=at(seconds), actor="x", kind=kind, subject="rollout/3", message="")


def found(history: Sequence[InForce], verdict: Verdict | None, *ledger: LedgerEntry, node: str = "a") -> int:
    own = InForce(at(0), 0, OWN)
    return len(unjudged(node, [own, *history], BASELINE, [rollout(verdict)], ledger))


def test_its_own_and_the_baseline_need_no_judgement() -> None:
    assert found([ran(1, BASELINE), InForce(at(2), 9, OWN)], None) == 0


@pytest.mark.parametrize(("node", "seconds", "count"), [("a", 11, 0), ("a", 5, 1), ("b", 11, 1)])
def test_a_canary_may_run_it_from_the_start_and_nobody_else(node: str, seconds: float, count: int) -> None:
    assert found([ran(seconds, 2)], None, node=node) == count


@pytest.mark.parametrize(
    ("verdict", "kind", "seconds", "count"),
    [
        (Verdict.BETTER, "rollout.promoting", 31, 0),
        (Verdict.NOT_WORSE, "rollout.promoted", 31, 0),
        (Verdict.BETTER, "rollout.promoting", 20, 1),
        (Verdict.WORSE, "rollout.promoting", 31, 1),
        (Verdict.UNJUDGED, "rollout.promoting", 31, 1),
        (Verdict.BETTER, "rollout.rolling_back", 31, 1),
    ],
)
def test_the_pool_runs_it_once_the_ledger_says_that_it_was_judged_good(
    verdict: Verdict, kind: str, seconds: float, count: int
) -> None:
    assert found([ran(seconds, 2)], verdict, entry(30, kind), node="b") == count


def test_a_revision_that_no_rollout_was_about() -> None:
    assert found([ran(40, 7)], Verdict.BETTER, entry(30, "rollout.promoted"), node="b") == 1


def node(name: str, revision: int | None) -> NodeView:
    effective = None if revision is None else EffectiveConfig(revision=revision, knobs={}, sources={})
    return NodeView(
        node=name, pool="real", role="serving", backend="embedded", connected=True, healthy=True, effective=effective
    )


def test_the_service_and_the_engines_agree_on_what_runs() -> None:
    assert mistold({"a": 2, "b": 0}, [node("a", 2), node("b", 0), node("of others", 7)]) == []


@pytest.mark.parametrize("said", [None, 1, 3])
def test_another_revision_than_runs_and_none_are_told(said: int | None) -> None:
    assert mistold({"a": 2, "b": 2}, [node("a", said), node("b", 2)]) == [f"a runs revision 2, the service says {said}"]
