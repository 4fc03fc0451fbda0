"""What forecasts of other settings are off by, by what they are called: calibrated, or extrapolated.

    python -m benchmarks.twin_measures.other_settings --runs /tmp/runs.pickle

The recorded engine serves traffic of a measured surface's kind under each of `--pools` configurations, which seeds draw
as defaults, and under some more, spread over the space. The twin of each pool, fitted to what its node tells, as
`tailwright whatif` does it, forecasts others, which were measured within the same minutes. --runs: kept there, so that
another twin is asked the same; --rate: requests a second of the engine's clock; --width-s: of a window of telemetry.
"""

import argparse
import json
import math
import pickle
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median

import numpy as np
from transformers import AutoTokenizer

from agents.engine.options import BUNDLED
from benchmarks.tuner_measures.engine_grid import CORPUS_TOKENS, traffic
from benchmarks.tuner_measures.from_forecasts.surface_forecasts import NAMES, SHAPE, defaults
from benchmarks.tuner_measures.measured_surface import full_weights
from benchmarks.twin_measures.recorded_engine import RecordedEngine, Served
from benchmarks.twin_measures.recorded_task import task_of
from controlplane.contract.bodies.workload import Workload
from controlplane.contract.knobs import canonical_json, parse_config
from controlplane.contract.planning.whatif import MOST_OTHERS, ForecastClass, WhatIfCreate
from tuner.search.well_spread import well_spread
from tuner.twin.forecast import WARM_UP, forecast
from tuner.twin.known_pool import known_of
from tuner.workload.corpus import read_tokens
from tuner.workload.generate import generate

Found = tuple[ForecastClass, str, float, float, bool]
"""Class, figure, log of forecast over measured, log of the interval's high end over its low one, whether it held."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--pools", type=int, default=10)
    parser.add_argument("--requests", type=int, default=60)
    parser.add_argument("--rate", type=float, default=31.0)
    parser.add_argument("--width-s", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    trace = generate(SHAPE, seed=given.seed, rate_per_s=given.rate, requests=given.requests)
    pools = [canonical_json(knobs) for knobs in defaults(given.pools)]
    others = [canonical_json(knobs) for knobs in well_spread(full_weights().space, json.loads(pools[0]), MOST_OTHERS)]
    if not given.runs.exists():
        given.runs.write_bytes(pickle.dumps(_served([*pools, *others], given)))
    runs: dict[str, Served] = pickle.loads(given.runs.read_bytes())
    found = [one for pool in pools for one in _held(runs, pool, others, trace, given.width_s)]
    print("| | forecasts | off by, middle / 90th | interval, high over low, middle | held |\n|---|---|---|---|---|")
    told: Mapping[tuple[str, str], list[Found]] = defaultdict(list)
    for one in found:
        told[one[0].value, one[1]].append(one)
    for (kind, name), several in sorted(told.items()):
        off = [math.expm1(abs(one[2])) for one in several]
        wide, held = math.exp(median(one[3] for one in several)), sum(one[4] for one in several)
        worst = float(np.quantile(off, 0.9))
        print(
            f"| {kind}, {name} | {len(several)} | {median(off):.0%} / {worst:.0%} | {wide:.1f} | "
            f"{held / len(several):.0%} |"
        )


def _served(keys: list[str], given: argparse.Namespace) -> dict[str, Served]:
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED)
    corpus = read_tokens(lambda text: tokenizer.encode(text, add_special_tokens=False), CORPUS_TOKENS)
    arrivals = traffic(given.seed, given.requests, given.rate, corpus)
    engine = RecordedEngine(BUNDLED, 64 * 2**20)
    return {key: engine.serve(arrivals, parse_config(json.loads(key))) for key in dict.fromkeys(keys)}


def _held(runs: Mapping[str, Served], pool: str, others: list[str], trace: Workload, width_s: float) -> Iterator[Found]:
    """Of the requests that a forecast scores."""
    asked = [json.loads(key) for key in others if key != pool]
    task = task_of(runs[pool], trace, parse_config(json.loads(pool)), width_s)
    task = task.model_copy(update={"asked": WhatIfCreate(pool=task.asked.pool, others=asked)})
    since_s = WARM_UP * known_of(task).until_s
    for one in forecast(task).others:
        real = _figures(runs[canonical_json(one.knobs)], since_s)
        for name in NAMES:
            told = one.quantiles[name]
            assert one.forecast_class is not None
            yield (
                one.forecast_class,
                name,
                math.log(told.value_s / real[name]),
                math.log(told.high_s / told.low_s),
                told.low_s <= real[name] <= told.high_s,
            )


def _figures(served: Served, since_s: float) -> dict[str, float]:
    late = [one for one in served.told_requests if one.arrived_s >= since_s]
    values = {
        "e2e:0.5": [one.last_s - one.arrived_s for one in late],
        "ttft:0.95": [one.first_s - one.arrived_s for one in late],
        "tpot:0.95": [(one.last_s - one.first_s) / (one.output_tokens - 1) for one in late if one.output_tokens > 1],
    }
    return {name: float(np.quantile(several, float(name.split(":")[1]))) for name, several in values.items()}


if __name__ == "__main__":
    main()
