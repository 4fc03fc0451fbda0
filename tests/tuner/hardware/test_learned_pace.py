"""What is learned of measured rows: a known machine is found again, rows measured wrong do not move it, and few points
move a forecast little."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from tuner.hardware.accelerators import ACCELERATORS, ENGINES, FORMATS, kv_bytes
from tuner.hardware.learned_pace import PACE, PUBLISHED, Measured, Pace, calibration, learned
from tuner.hardware.model_shape import ModelShape
from tuner.hardware.steady_batch import Deployment, Load

SHAPES = (ModelShape(32, 4096, 32, 8, 128, 14336, 128256), ModelShape(64, 5120, 64, 8, 128, 25600, 151936))
TRUE = Pace((1.1, 1.5, 1.8, 2.0, 1.6, 20.0, 2.0, 60.0, 40.0, 50.0))


def deployments() -> Iterator[Deployment]:
    for shape in SHAPES:
        for name in ("h100", "h200", "b200"):
            for engine in ENGINES:
                for ranks in (1, 4):
                    weights = FORMATS["fp8"]
                    yield Deployment(shape, ACCELERATORS[name], weights, engine, ranks, kv_bytes(engine, weights))


def rows(noise: float, seed: int = 0) -> list[Measured]:
    random = np.random.default_rng(seed)
    return [
        Measured(one, load, TRUE.tpot_s(one, load) * math.exp(noise * random.standard_normal()))
        for one in deployments()
        for load in (Load(1024, 1024, 4), Load(8192, 1024, 32), Load(1024, 8192, 64), Load(512, 128, 128))
    ]


def errors(pace: Pace, of: list[Measured]) -> list[float]:
    return [abs(pace.tpot_s(one.deployment, one.load) / TRUE.tpot_s(one.deployment, one.load) - 1) for one in of]


def test_a_known_machine_is_found_again() -> None:
    exact = rows(0.0)
    assert max(errors(learned(exact), exact)) < 0.02
    noisy = rows(0.08)
    assert np.median(errors(learned(noisy), noisy)) < 0.02


def test_an_accelerator_that_no_row_has_is_forecast_by_its_sizes() -> None:
    seen = [one for one in rows(0.05) if one.deployment.accelerator is not ACCELERATORS["b200"]]
    unseen = [one for one in rows(0.0) if one.deployment.accelerator is ACCELERATORS["b200"]]
    assert np.median(errors(learned(seen), unseen)) < 0.05


def test_rows_that_were_measured_wrong_do_not_move_it() -> None:
    wrong = [
        Measured(one.deployment, one.load, one.tpot_s * (5 if number % 10 == 0 else 1))
        for number, one in enumerate(rows(0.03))
    ]
    assert np.median(errors(learned(wrong), wrong)) < 0.03


def test_what_no_row_tells_of_is_as_others_publish_it() -> None:
    only_vllm = [one for one in rows(0.0) if one.deployment.engine == "vllm" and one.deployment.ranks == 1]
    found = learned(only_vllm).each
    assert found[4] == pytest.approx(PUBLISHED[4])
    assert found[8:] == pytest.approx(PUBLISHED[8:])
    assert found[7] != pytest.approx(PUBLISHED[7])


def test_points_move_a_forecast_the_more_the_more_they_are() -> None:
    slow = [Measured(one.deployment, one.load, 1.3 * PACE.tpot_s(one.deployment, one.load)) for one in rows(0.0)]
    assert calibration(PACE, []) == 1.0
    factors = [calibration(PACE, slow[:count]) for count in (1, 3, 30)]
    assert 1.0 < factors[0] < factors[1] < factors[2] < 1.3
    assert factors[1] == pytest.approx(1.3**0.75)
