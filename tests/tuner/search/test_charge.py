"""What changes cost a study: prices, budgets, and a search that pays for few of them."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from controlplane.contract.bodies.nodes import ChangeCost, EffectiveConfig, NodeView
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.knobs import ChangeClass, EngineConfig
from tuner.search.charge import GUESS_S, Budget, Prices, allowance_s
from tuner.search.objective import Assessment
from tuner.search.search import Search
from tuner.search.space import Capabilities, build_space
from tuner.study.remeasure import BLOCKS, DEFAULT, INTERLEAVED, WINNER, blocks, changes_of, design_for

KNOBS = EngineConfig(max_num_batched_tokens=64).knobs()
SPACE = build_space({}, KNOBS, Capabilities(quantization=("none", "int8", "int4")))
NODE = EffectiveConfig(
    revision=1, knobs=KNOBS, costs={ChangeClass.RESTART: ChangeCost(count=1, last_s=70.0, mean_s=70.0)}
)


def test_prices_are_measured_else_told_else_guessed() -> None:
    prices = Prices()
    int8 = {**KNOBS, "quantization": "int8"}
    assert prices.between("vllm", NODE, KNOBS, KNOBS) == 0.0
    assert prices.between("vllm", NODE, KNOBS, int8) == 70.0
    assert prices.between("vllm", NODE, int8, KNOBS) == 70.0
    assert prices.between("vllm", NODE, int8, {**int8, "max_num_seqs": 4}) == GUESS_S[ChangeClass.LIVE]
    prices.paid(ChangeClass.RESTART, 40.0)
    prices.paid(ChangeClass.RESTART, 60.0)
    prices.paid(None, 1.0)
    assert prices.between("vllm", NODE, KNOBS, int8) == 50.0
    warming = ChangeCost(count=1, last_s=70.0, mean_s=70.0, warm_ups=1, warm_up_s=12.0, capacity_lost_s=76.0)
    node = NODE.model_copy(update={"costs": {ChangeClass.RESTART: warming}})
    assert prices.between("vllm", node, KNOBS, int8) == 62.0, "what it measured, and the warm-up that the node tells"
    assert Prices().between("vllm", node, KNOBS, int8) == 82.0


def test_time_is_set_apart_for_restarts_only_where_a_study_may_need_one() -> None:
    def allowance(effective: EffectiveConfig, **spec: Any) -> float:
        node = NodeView(
            node="t", pool="p-trial", role="trial", backend="vllm", connected=True, healthy=True, effective=effective
        )
        return allowance_s(StudyCreate(pool="p", **spec), node, KNOBS)

    able = NODE.model_copy(update={"formats": ["none", "int8"]})
    assert allowance(able) == 3 * 70.0
    assert allowance(able, max_duration_s=300) == 150.0
    assert allowance(able, space={"max_num_seqs": {"choices": [4, 8]}}) == 0.0
    assert allowance(NODE) == 0.0
    assert allowance(able.model_copy(update={"change_classes": {"quantization": ChangeClass.SWAP}})) == 0.0


class Node:
    """Counts what a search makes it change."""

    def __init__(self, dear_s: float) -> None:
        self.runs: dict[str, Any] = dict(KNOBS)
        self.dear_s = dear_s
        self.formats: list[str] = []

    def charge(self, knobs: Mapping[str, Any]) -> float:
        return self.dear_s if knobs["quantization"] != self.runs["quantization"] else 0.0

    def measure(self, knobs: dict[str, Any]) -> Assessment:
        self.runs = knobs
        self.formats.append(knobs["quantization"])
        speed = {"none": 1.0, "int8": 0.8, "int4": 0.9}[knobs["quantization"]]
        return Assessment(speed * (0.2 + 20.0 / knobs["max_num_batched_tokens"]), {})

    @property
    def switches(self) -> int:
        return sum(a != b for a, b in pairwise(self.formats))


def _searched(node: Node, *, left_s: float, run_s: float = 10.0, trials: int = 16) -> Search:
    search = Search(SPACE, KNOBS, constraints=[], seed=1, max_trials=trials)
    while (candidate := search.ask(Budget(node.charge, run_s, left_s))) is not None:
        left_s -= node.charge(candidate.knobs) + run_s
        search.tell(candidate, node.measure(candidate.knobs))
    return search


@pytest.mark.slow
def test_dear_changes_come_only_after_as_many_runs_as_they_cost() -> None:
    node = Node(dear_s=60.0)
    search = _searched(node, left_s=10_000.0)
    assert search.why_over() and len(search.outcomes) > 8
    lengths = [1]
    for before, after in pairwise(node.formats):
        if before == after:
            lengths[-1] += 1
        else:
            lengths.append(1)
    assert 1 <= node.switches <= 4 and all(length >= 4 for length in lengths[:-1])
    free = Node(dear_s=0.0)
    _searched(free, left_s=10_000.0)
    assert free.switches > node.switches


def test_a_change_that_the_time_left_cannot_pay_for_is_not_proposed() -> None:
    node = Node(dear_s=60.0)
    search = _searched(node, left_s=150.0)
    assert node.switches == 0 and len(search.outcomes) == 16


def test_it_says_when_only_unaffordable_configurations_are_left() -> None:
    formats_only = build_space({}, KNOBS, Capabilities(quantization=("none", "int8"), maximum={}))
    space = type(formats_only)({"quantization": ["none", "int8"]}, {k: KNOBS[k] for k in KNOBS if k != "quantization"})
    search = Search(space, KNOBS, constraints=[], max_trials=5)
    node = Node(dear_s=60.0)
    first = search.ask(Budget(node.charge, 10.0, 100.0))
    assert first is not None
    search.tell(first, node.measure(first.knobs))
    assert search.ask(Budget(node.charge, 10.0, 100.0)) is None
    assert not search.why_over() and "no time is left" in search.why_none()
    assert search.ask(Budget(node.charge, 10.0, 190.0)) is not None


@pytest.mark.parametrize("repeats", [2, 3, 4, 5])
@pytest.mark.parametrize("outer", [DEFAULT, WINNER])
def test_blocks_hold_every_pair_once_in_each_arm_with_two_changes(repeats: int, outer: str) -> None:
    runs = blocks(repeats, outer)
    assert sorted(runs) == sorted((pair, arm) for pair in range(repeats) for arm in (DEFAULT, WINNER))
    arms = [arm for _, arm in runs]
    assert arms[0] == outer
    assert sum(a != b for a, b in pairwise(arms)) == changes_of(BLOCKS, repeats)


def test_the_design_is_interleaved_while_it_can_be_paid_for() -> None:
    assert design_for(3, run_s=10.0, change_s=0.5, cheap_s=5.0, left_s=0.0) == INTERLEAVED
    assert design_for(3, run_s=10.0, change_s=60.0, cheap_s=5.0, left_s=300.0) == INTERLEAVED
    assert design_for(3, run_s=10.0, change_s=60.0, cheap_s=5.0, left_s=299.0) == BLOCKS
