"""From the ledger's rollouts to what they mean for baselines."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.alerts.conditions.deliberate import Deliberate, changes_of, measured_shifts
from controlplane.contract.bodies.ledger import LedgerEntry

START = datetime(2030, 1, 1, tzinfo=UTC)
BEGUN_S = START.timestamp()


def quantiles(factor: float, count: int = 1000) -> dict[str, float]:
    return {"count": count, "p50": 0.1 * factor, "p95": 0.3 * factor, "p99": 0.5 * factor}


def judging(**factors: float) -> dict[str, Any]:
    return {"metrics": {name: {"control": quantiles(1.0), "canary": quantiles(f)} for name, f in factors.items()}}


class Ledger:
    """Rollouts as their store records them."""

    def __init__(self) -> None:
        self.entries: list[LedgerEntry] = []

    def add(self, rollout: int, second: float, verb: str, **evidence: Any) -> None:
        self.entries.append(
            LedgerEntry(
                id=len(self.entries) + 1,
                time=START + timedelta(seconds=second),
                actor="tailwright",
                kind=f"rollout.{verb}",
                subject=f"rollout/{rollout}",
                message="",
                evidence=evidence,
            )
        )

    def rollout(
        self, number: int, at: float, pair: tuple[int, int], verdict: str, *verbs: str, **factors: float
    ) -> None:
        """One that goes from one revision to another, a phase every 100 s."""
        evidence = {"verdict": verdict, "previous_revision": pair[0], "revision": pair[1], "canary_nodes": ["b"]}
        self.add(number, at, "created", spec={"pool": "main", "revision": pair[1]})
        for place, verb in enumerate(verbs):
            self.add(number, at + 100 * place, verb, **evidence, judging=judging(**factors))

    def main(self, *metrics: str) -> Deliberate:
        return changes_of(self.entries, metrics or ("ttft", "itl")).get("main", Deliberate())


JUDGED = ("canary", "judging", "promoting", "promoted")


@pytest.mark.parametrize("verdict", ["better", "not_worse"])
def test_a_promoted_trade_moves_what_it_changed(verdict: str) -> None:
    ledger = Ledger()
    ledger.rollout(1, 0, (1, 2), verdict, *JUDGED, ttft=1.3, itl=0.8)
    found = ledger.main("ttft", "itl", "e2e")
    # Slower from the first wave on, faster by the last.
    (first,), (gaps,) = found.moves["ttft"], found.moves["itl"]
    assert (first.at_s - BEGUN_S, first.factor(0.95)) == (200, pytest.approx(1.3, 0.02))
    assert (gaps.at_s - BEGUN_S, gaps.factor(0.99)) == (300, pytest.approx(0.8, 0.02))
    assert found.moves["e2e"][0].shifts is None  # Not measured: it begins anew.
    assert first.ends_alarm and not gaps.ends_alarm
    assert not found.taken_back and not found.on_trial


def test_what_did_not_change_does_not_move() -> None:
    ledger = Ledger()
    ledger.rollout(1, 0, (1, 2), "not_worse", *JUDGED, ttft=1.03, itl=1.0)
    assert ledger.main().moves == {}


def test_an_unjudged_one_changes_nothing() -> None:
    ledger = Ledger()
    ledger.rollout(1, 0, (1, 2), "unjudged", "promoting", "promoted", ttft=3.0)
    assert ledger.main() == Deliberate(changing=[(BEGUN_S, BEGUN_S + 100)])


def test_one_that_went_back_teaches_nothing() -> None:
    ledger = Ledger()
    ledger.rollout(1, 0, (1, 2), "worse", "canary", "judging", "rolling_back", "rolled_back", ttft=3.0)
    ledger.rollout(2, 1000, (1, 3), "better", "canary", "judging", "promoting", "rolling_back", "failed", ttft=0.5)
    found = ledger.main()
    assert found.moves == {} and found.taken_back == [(BEGUN_S, BEGUN_S + 300), (BEGUN_S + 1000, BEGUN_S + 1400)]


@pytest.mark.parametrize("verdict", ["better", "unjudged"])
@pytest.mark.parametrize("first", ["unjudged", "not_worse"])
def test_taking_back_restores_what_was_normal(first: str, verdict: str) -> None:
    """Judged or not, either way: the windows between teach nothing, and nothing has moved."""
    ledger = Ledger()
    ledger.rollout(1, 0, (1, 2), first, *JUDGED[-2:], ttft=1.2)
    ledger.rollout(2, 1000, (2, 1), verdict, *JUDGED[-2:], ttft=0.1)
    found = ledger.main()
    assert found.moves == {} and found.taken_back == [(BEGUN_S, BEGUN_S + 1100)]
    ledger.rollout(3, 2000, (1, 2), "better", *JUDGED, ttft=0.5)
    assert [move.rollout_id for move in ledger.main().moves["ttft"]] == [3]


@pytest.mark.parametrize(
    ("verdict", "verbs", "spans"),
    [
        ("better", ("canary", "judging"), []),
        ("better", JUDGED[:3], [(BEGUN_S + 300, math.inf)]),
        ("better", JUDGED, [(BEGUN_S + 300, BEGUN_S + 400)]),
        ("none", ("promoting", "promoted"), [(BEGUN_S + 100, BEGUN_S + 200)]),
        ("worse", ("canary", "judging", "rolling_back", "rolled_back"), []),
        ("better", (*JUDGED[:3], "rolling_back", "rolled_back"), [(BEGUN_S + 300, BEGUN_S + 500)]),
    ],
)
def test_while_it_goes_on_wave_by_wave_a_pool_is_changing(
    verdict: str, verbs: tuple[str, ...], spans: list[tuple[float, float]]
) -> None:
    ledger = Ledger()
    ledger.rollout(1, 100, (1, 2), verdict, *verbs, ttft=1.1)
    assert ledger.main().changing == spans


def test_nodes_on_trial_are_those_a_rollout_judges_now() -> None:
    ledger = Ledger()
    ledger.rollout(1, 0, (1, 2), "", "canary")
    assert ledger.main().on_trial == {"b"}
    ledger.add(1, 100, "judging", revision=2, previous_revision=1, canary_nodes=["b"], verdict=None)
    assert ledger.main().on_trial == {"b"}
    ledger.add(1, 200, "promoting", revision=2, previous_revision=1, canary_nodes=["b"], verdict="better")
    assert ledger.main().on_trial == frozenset()


@pytest.mark.parametrize(
    "evidence",
    [
        {},
        {"judging": None},
        {"judging": {"metrics": []}},
        {"judging": {"metrics": {"ttft": {"control": quantiles(1.0)}}}},
        {"judging": {"metrics": {"ttft": {"control": quantiles(1.0, 20), "canary": quantiles(2.0)}}}},
        {"judging": {"metrics": {"ttft": {"control": {"count": 500}, "canary": {"count": 500}}}}},
    ],
)
def test_what_is_not_measured_is_not_guessed(evidence: dict[str, Any]) -> None:
    assert measured_shifts(evidence, "ttft") is None


def test_other_entries_and_pools_do_not_matter() -> None:
    ledger = Ledger()
    ledger.rollout(1, 0, (1, 2), "better", *JUDGED, ttft=0.5)
    ledger.entries.append(ledger.entries[-1].model_copy(update={"kind": "node.enrolled", "subject": "node/x"}))
    assert set(changes_of(ledger.entries, ("ttft",))) == {"main"}
