"""What is learned of measured rows: a known machine is found again, and rows measured wrong do not move it."""

import math
from collections.abc import Iterator

import numpy as np
import pytest

from benchmarks.twin_measures.learned_factors import PUBLISHED, learned, learned_first
from benchmarks.twin_measures.table_rows import SHAPES
from controlplane.hardware.accelerators import ACCELERATORS, ENGINES, FORMATS, kv_bytes
from controlplane.hardware.learned_pace import FirstToken, Measured, Pace
from controlplane.hardware.steady_batch import Deployment, Load, room

DENSE = (SHAPES["llama-3.1-8b"], SHAPES["qwen3-32b"])
TRUE = Pace((1.1, 1.5, 1.8, 2.0, 1.6, 20.0, 2.0, 25.0, 60.0, 40.0, 50.0))
FIRST = FirstToken(1.2, 0.03, 1.1)


def deployments() -> Iterator[Deployment]:
    for shape in (*DENSE, SHAPES["qwen3-235b"]):
        for name in ("h100", "h200", "b200"):
            for engine in ENGINES:
                for ranks in (1, 4):
                    weights = FORMATS["fp8"]
                    yield Deployment(shape, ACCELERATORS[name], weights, engine, ranks, kv_bytes(engine, weights))


def rows(noise: float, seed: int = 0) -> list[Measured]:
    random = np.random.default_rng(seed)
    return [
        Measured(
            one,
            load,
            TRUE.tpot_s(one, load) * math.exp(noise * random.standard_normal()),
            FIRST.measured_s(TRUE, one, load) * math.exp(noise * random.standard_normal()),
        )
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


def test_what_a_first_token_takes_is_found_again_by_those_that_had_room() -> None:
    noisy = rows(0.08)
    wrong = [
        Measured(one.deployment, one.load, one.tpot_s, 60.0)
        if room(one.deployment, one.load) < one.load.concurrency
        else one
        for one in noisy
    ]
    found = learned_first(TRUE, wrong)
    assert found.prompt == pytest.approx(FIRST.prompt, rel=0.1)
    assert found.beside_s == pytest.approx(FIRST.beside_s, rel=0.1)
    assert found.together == pytest.approx(FIRST.together, rel=0.1)


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
    only_vllm = [
        one
        for one in rows(0.0)
        if one.deployment.engine == "vllm" and one.deployment.ranks == 1 and not one.deployment.shape.experts
    ]
    found = learned(only_vllm).each
    assert found[4] == pytest.approx(PUBLISHED[4]) and found[7] == pytest.approx(PUBLISHED[7])
    assert found[9:] == pytest.approx(PUBLISHED[9:])
    assert found[8] != pytest.approx(PUBLISHED[8])
