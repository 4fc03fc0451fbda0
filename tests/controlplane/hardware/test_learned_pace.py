"""What points and waiting do to a forecast: few points move it little, and who comes at random waits as queues do."""

import math

import numpy as np
import pytest

from controlplane.contract.reports.model_shape import ModelShape
from controlplane.hardware.accelerators import ACCELERATORS, FORMATS
from controlplane.hardware.learned_pace import (
    FEWEST_POINTS,
    PACE,
    FirstToken,
    calibration,
    is_other_size,
    nine_of_ten,
    waiting_s,
)
from controlplane.hardware.steady_batch import Deployment, Load

SHAPE = ModelShape(
    layers=80, hidden=8192, heads=64, kv_heads=8, head_dim=128, intermediate=28672, vocabulary=128256
)  # fmt: skip
WIDE = Deployment(SHAPE, ACCELERATORS["h100"], FORMATS["fp8"], "vllm", 4, 2)


def test_points_move_a_forecast_the_more_the_more_they_are() -> None:
    assert calibration([]) == 1.0
    factors = [calibration([1.3] * count) for count in (1, 3, 30)]
    assert 1.0 < factors[0] < factors[1] < factors[2] < 1.3
    assert factors[1] == pytest.approx(1.3**0.75)


def test_a_first_token_is_its_prompt_what_stands_beside_it_and_those_that_began_with_it() -> None:
    load, first = Load(8192, 1024, 32), FirstToken(1.1, 0.03, 1.2)
    prompt_s = PACE.prompt_s(WIDE, load)
    assert 0.2 < prompt_s < 0.6, "2 x 70e9 x 8,192 products on four times 1,979e12 a second, at a third to two thirds"
    assert first.alone_s(PACE, WIDE, load) == pytest.approx(1.1 * prompt_s + 0.03)
    gap = first.measured_s(PACE, WIDE, load) - first.alone_s(PACE, WIDE, load)
    assert gap == pytest.approx(1.2 * 32 / 20 * prompt_s), "of ten times 32 the first 32 wait for half of each other"


def test_who_comes_at_random_waits_as_in_a_queue_of_one() -> None:
    """Against Lindley's recursion: 200,000 prompts of 0.2 s, four a second."""
    gaps = np.random.default_rng(1).exponential(0.25, 200_000)
    waited, total = 0.0, 0.0
    for gap in gaps.tolist():
        waited = max(0.0, waited + 0.2 - gap)
        total += waited
    assert waiting_s(0.2, 4.0) == pytest.approx(total / len(gaps), rel=0.05)
    assert waiting_s(0.2, 0.0) == 0.0 and math.isinf(waiting_s(0.2, 5.0))


def test_what_is_known_less_of_is_told_with_more() -> None:
    seen, elsewhere, experts = (
        nine_of_ten(is_seen, has_experts, "vllm", 0, 0)
        for is_seen, has_experts in ((True, False), (False, False), (True, True))
    )
    assert seen.between < elsewhere.between < experts.between and seen.first < experts.first < elsewhere.first
    own = nine_of_ten(True, True, "vllm", FEWEST_POINTS, FEWEST_POINTS)
    assert own.between < experts.between and own.first < experts.first
    assert nine_of_ten(True, True, "vllm", FEWEST_POINTS - 1, 0) == experts
    assert nine_of_ten(True, False, "sglang", 0, 0).first > seen.first
    other = nine_of_ten(True, False, "vllm", 0, 0, other_size=True)
    assert (
        other.between > elsewhere.between
        and other.first > 1
        and other == nine_of_ten(False, False, "vllm", 0, 0, other_size=True)
    )
    with_points = nine_of_ten(True, False, "vllm", FEWEST_POINTS, FEWEST_POINTS, other_size=True)
    assert seen.between < with_points.between < other.between and with_points.first >= 1


def test_models_of_another_size_are_dense_ones_far_beyond_those_that_were_learned_of() -> None:
    def layers(count: int, **more: int) -> bool:
        return is_other_size(SHAPE.model_copy(update={"layers": count} | more))

    assert not is_other_size(SHAPE) and not layers(160) and layers(170), "80 have 68.5e9 weights"
    assert not layers(5) and layers(4)
    assert not layers(4, experts=8, experts_a_token=2, expert_intermediate=512), "those are told with their own error"
