"""What a pace did from stretch to stretch says how far the next may be; and forecasts then say so, too."""

import math

import numpy as np
import pytest

from controlplane.contract.knobs import parse_config
from controlplane.contract.planning.whatif import WhatIfCreate
from tests.soak import soak
from tests.tuner.served_pool import Served, traffic, wandering
from tuner.twin.answer.forecast_error import WANTED, key
from tuner.twin.costs.nonnegative_fit import Row
from tuner.twin.costs.pace_wander import STRETCHES, wander
from tuner.twin.costs.step_terms import StepCost
from tuner.twin.forecast import forecast

COST = StepCost((0.01, 0.0, 0.0, 0.0, 0.0, 0.0))
CONFIG = parse_config({"max_num_batched_tokens": 256, "max_num_seqs": 16})


def _rows(paces: np.ndarray, each: int, jitter: float, random: np.random.Generator) -> list[Row]:
    return [
        Row((1.0, 0.0, 0.0, 0.0, 0.0, 0.0), 0.01 * float(pace) * math.exp(jitter * random.standard_normal()))
        for pace in np.repeat(paces, each)
    ]


@pytest.mark.parametrize("sd", [0.02, 0.1, 0.4])
def test_the_next_stretch_is_as_near_as_is_said_nineteen_times_of_twenty(sd: float) -> None:
    random = np.random.default_rng(5)
    inside = 0
    for _ in range(400):
        paces = np.exp(sd * random.standard_normal(STRETCHES + 1))
        rows = _rows(paces[:-1], 20, 0.05, random)
        level = math.log(sum(row.seconds for row in rows) / sum(COST.seconds(row.terms) for row in rows))
        inside += abs(math.log(paces[-1]) - level) <= math.log(wander(rows, COST))
    assert 0.92 <= inside / 400 <= 0.98


def test_a_steady_machine_is_said_to_be_steady_and_of_too_few_rows_nothing_is() -> None:
    random = np.random.default_rng(1)
    assert 1.0 < wander(_rows(np.ones(STRETCHES), 100, 0.05, random), COST) < 1.02
    assert wander(_rows(np.ones(5), 1, 0.5, random), COST) == 1.0


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.parametrize(("sd", "tau_s"), [(0.0, 30.0), (0.1, 10.0), (0.2, 30.0)])
def test_of_a_pool_whose_pace_wanders_intervals_cover_what_is_then_measured(sd: float, tau_s: float) -> None:
    """The same traffic is served again, by what the machine's pace has become; 95 % are told."""
    covered, paces = [], []
    for seed in range(soak(3, 12)):
        workload = traffic(seed=100 + seed, requests=330, per_s=2.0)
        span_s = workload.requests[-1].timestamp / 1000.0
        pace = wandering(seed, sd, tau_s, 3 * span_s)
        answer = forecast(Served(workload, CONFIG, seed, pace).task(WhatIfCreate(pool="chat")))
        later = Served(workload, CONFIG, 1000 + seed, lambda at_s, pace=pace, since_s=span_s: pace(since_s + at_s))
        measured = later.figures(since_s=0.2 * span_s)
        told = answer.as_is.quantiles
        covered += [told[name].low_s <= measured[name] <= told[name].high_s for name in (key(*one) for one in WANTED)]
        paces.append(answer.fit["wander"])
    assert np.mean(covered) >= 0.8
    assert max(paces) < 0.02 if sd == 0.0 else min(paces) > sd / 2
