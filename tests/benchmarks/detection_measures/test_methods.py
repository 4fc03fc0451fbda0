"""A part that is left out is left out, and is there again afterwards."""

import numpy as np
import pytest

from benchmarks.detection_measures import methods
from benchmarks.detection_measures.arrivals import Lap
from benchmarks.detection_measures.fast_forward import WARM_S
from benchmarks.detection_measures.methods import PARTS, Ablated, followed
from benchmarks.detection_measures.worlds import Fault, Shape, World
from controlplane.alerts.regressions import course, yardstick
from controlplane.contract.bodies.alerts import RegressionCondition
from controlplane.evidence import wander

RULE = RegressionCondition(metrics=["prefill"])


def constants() -> tuple[object, ...]:
    return course.FLOOR_FACTOR, wander.CAUTION, wander.CAUTION_BY_PAIRS, yardstick.BY_TOKENS


@pytest.mark.parametrize(
    ("part", "kept"),
    [
        ("floors", (0.0, wander.CAUTION, wander.CAUTION_BY_PAIRS, yardstick.BY_TOKENS)),
        ("caution", (course.FLOOR_FACTOR, 0.0, 0.0, yardstick.BY_TOKENS)),
        ("tokens", (course.FLOOR_FACTOR, wander.CAUTION, wander.CAUTION_BY_PAIRS, frozenset())),
        ("tail", constants()),
    ],
)
def test_its_constant_is_as_if_it_were_not_there(part: str, kept: tuple[object, ...]) -> None:
    usual = constants()
    with methods._constants([part]):
        assert constants() == kept
    assert constants() == usual


def test_without_nodes_none_is_watched() -> None:
    assert Ablated(RULE, list(PARTS.keys() - {"nodes"})).watches
    assert not Ablated(RULE, ["nodes"]).watches


@pytest.mark.slow
def test_without_its_tokens_a_prompt_bucket_explains_nothing() -> None:
    random = np.random.default_rng(1)
    source = Lap(np.sort(3600.0 * random.random(7200)), random.integers(50, 1500, 7200), "made up")
    slopes = {}
    for without in ((), ("tokens", "tail")):
        world = World(Shape("still", 2.0), source, (1,))
        found = followed("product, prefill", world.chunks(WARM_S + 600.0), without)
        known = found._detector.learners["prefill", "*"].course
        assert known is not None
        slopes[without] = [one.by_tokens.slope for one in known.yardstick.usual.values()]
        assert ("tail" in known.lines) == (not without)
    assert min(slopes[()]) > 0.0 and set(slopes["tokens", "tail"]) == {0.0}


def test_one_nodes_lost_drafts_are_told_by_its_time_per_token_though_the_pools_tail_has_none_either() -> None:
    random = np.random.default_rng(1)
    source = Lap(np.sort(3600.0 * random.random(14400)), random.integers(50, 1500, 14400), "made up")
    fault = Fault(WARM_S + 300.0, 1.0, node=2, no_drafts=True)
    raised = {}
    for without in ((), ("nodes",)):
        world = World(Shape("still", 4.0), source, (1,), (fault,))
        found = followed("product, tpot", world.chunks(fault.at_s + 180.0), without, first_only=True)
        raised[without] = found.raised
        if not without:
            assert found._detector.apart("tpot") == ["n2"]
    assert len(raised[()]) == 1 and fault.at_s < raised[()][0] <= fault.at_s + 120.0
    assert not raised["nodes",]
