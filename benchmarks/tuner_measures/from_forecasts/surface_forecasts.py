"""What the twin of a pool forecasts for the configurations of a measured surface, kept beside it.

    python -m benchmarks.tuner_measures.from_forecasts.surface_forecasts

A pool runs one of the configurations that seeds draw as their default. The recorded engine serves traffic of the
surface's kind under it, other requests than those that the surface was measured on; the twin is fitted to what the node
tells of that, as `tuner.twin.forecast` does it, and serves the surface's two slices under configurations spread over
the space (`well_spread`), as a study would replay one. The machine need not be the surface's, so that one factor on the
twin's pace makes the default's median as it was measured on the other slice; kept are logarithms of forecast over
forecast of the default. --rate: so that this machine is about as busy as the surface's was.
"""

import argparse
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from agents.engine.options import BUNDLED
from benchmarks.engine_measures.machine import commit, describe_machine
from benchmarks.tuner_measures.engine_grid import CORPUS_TOKENS, traffic
from benchmarks.tuner_measures.known_surfaces import Surface
from benchmarks.tuner_measures.measured_surface import EMBEDDED, LIMITS, OBJECTIVE, full_weights, read
from benchmarks.twin_measures.recorded_engine import RecordedEngine, Served
from benchmarks.twin_measures.recorded_task import task_of
from controlplane.contract.bodies.workload import Workload
from controlplane.contract.knobs import EngineConfig, canonical_json, parse_config
from controlplane.contract.planning.whatif import WhatIf
from tuner.search.well_spread import well_spread
from tuner.twin.assumed_drafts import Drafts
from tuner.twin.costs.step_terms import NAMES as TERMS
from tuner.twin.costs.step_terms import StepCost
from tuner.twin.dealt_traffic import Scale
from tuner.twin.forecast import Planner, forecast
from tuner.twin.pool_run import Pool, run_pool
from tuner.workload.corpus import read_tokens
from tuner.workload.generate import SHAPES, fitted, generate

NAMES = (OBJECTIVE, *LIMITS)
FIRST_SEED = 900
"""Whose defaults are taken, from here on: of seeds that choices are neither made nor told on."""
QUICK = Planner(draws=0)
"""Only the middle of a forecast is kept."""
SHAPE = fitted(SHAPES["chat"], max_input=700, max_output=64)
SLOWEST, HALVINGS = (0.2, 3.0), 10
"""Between which factors the pace is sought, and how often they are brought nearer."""

Ratios = dict[str, dict[str, float]]
"""By configuration, as JSON: log ratio to the default by figure."""


def kept_at(surface: Path) -> Path:
    """Where the forecasts for a measured surface are kept."""
    return surface.with_name(f"{surface.stem}_forecasts.json")


@cache
def kept(surface: Path = EMBEDDED) -> dict[str, list[Ratios]]:
    """By default, as JSON: of each slice."""
    told = json.loads(kept_at(surface).read_text(encoding="utf-8"))["forecasts"]
    return {
        default: [{key: dict(zip(NAMES, values, strict=True)) for key, values in found.items()} for found in both]
        for default, both in told.items()
    }


def defaults(many: int, make: Callable[[int], Surface] = full_weights) -> list[dict[str, Any]]:
    """Different ones, as seeds draw them."""
    found: dict[str, dict[str, Any]] = {}
    for seed in count(FIRST_SEED):
        if len(found) == many:
            return list(found.values())
        knobs = make(seed).default
        found[canonical_json(knobs)] = knobs
    raise AssertionError("a count ends nowhere")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=kept_at(EMBEDDED))
    parser.add_argument("--defaults", type=int, default=10)
    parser.add_argument("--configurations", type=int, default=32)
    parser.add_argument("--requests", type=int, default=300)
    parser.add_argument("--rate", type=float, default=30.0, help="requests a second, of the engine's clock")
    parser.add_argument("--width-s", type=float, default=0.25, help="of a window of telemetry")
    parser.add_argument("--seed", type=int, default=101)
    given = parser.parse_args()
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED)
    corpus = read_tokens(lambda text: tokenizer.encode(text, add_special_tokens=False), CORPUS_TOKENS)
    arrivals = traffic(given.seed, given.requests, given.rate, corpus)
    trace = generate(SHAPE, seed=given.seed, rate_per_s=given.rate, requests=given.requests)
    engine, space = RecordedEngine(BUNDLED, 64 * 2**20), full_weights(0).space
    told: dict[str, Any] = {
        "machine": describe_machine(),
        "commit": commit(),
        "requests": given.requests,
        "rate_per_s": given.rate,
        "seed": given.seed,
        "errors": {},
        "forecasts": {},
    }
    for default in defaults(given.defaults):
        began, key, config = time.process_time(), canonical_json(default), parse_config(default)
        answer, pool = _fitted(engine, engine.serve(arrivals, config), trace, config, given.width_s)
        told["errors"][key] = {name: round(answer.error[name], 3) for name in NAMES}
        asked = well_spread(space, default, given.configurations)
        told["forecasts"][key] = [ratios(paced(pool, 1 - place), place, asked) for place in (0, 1)]
        given.out.write_text(json.dumps(told, separators=(",", ":")) + "\n", encoding="utf-8")
        print(f"{key}: {time.process_time() - began:.1f} s, off {told['errors'][key]}", flush=True)


def _fitted(
    engine: RecordedEngine, served: Served, trace: Workload, config: EngineConfig, width_s: float
) -> tuple[WhatIf, Pool]:
    task = task_of(served, trace, config, width_s)
    answer = forecast(task, QUICK)
    drafts = Drafts.seen(
        sum(one.drafted for one in task.windows),
        sum(one.accepted for one in task.windows),
        sum(one.output_tokens - 1 for one in task.records),
        config.draft_length(1),
    )
    cost = StepCost.of(answer.fit[name] for name in TERMS)
    return answer, Pool(engine.shape, config, cost, drafts=drafts)


def paced(pool: Pool, place: int, surface: Path = EMBEDDED) -> Pool:
    """As quick as the surface's machine, by the default's median on this slice."""
    real = read(surface).slices[place][canonical_json(pool.config.knobs())][OBJECTIVE]
    low, high = SLOWEST
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        tried = replace(pool, cost=pool.cost.scaled(middle))
        low, high = (low, middle) if _figures(tried, place, surface)[OBJECTIVE] > real else (middle, high)
    return replace(pool, cost=pool.cost.scaled(math.sqrt(low * high)))


def ratios(pool: Pool, place: int, asked: Sequence[dict[str, Any]], surface: Path = EMBEDDED) -> dict[str, list[float]]:
    """By configuration, in the order of `NAMES`."""
    base, found = _figures(pool, place, surface), {}
    for knobs in asked:
        figures = _figures(replace(pool, config=parse_config(knobs)), place, surface)
        found[canonical_json(knobs)] = [round(math.log(figures[name] / base[name]), 3) for name in NAMES]
    return found


def _figures(pool: Pool, place: int, surface: Path) -> dict[str, float]:
    run = run_pool(pool, slice_of(place, surface), Scale())
    found = {}
    for name in NAMES:
        metric, q = name.split(":")
        value = run.quantile(metric, float(q))
        assert value is not None
        found[name] = value
    return found


@cache
def slice_of(place: int, surface: Path = EMBEDDED) -> Workload:
    """As `engine_grid` made it."""
    made = json.loads(surface.read_text(encoding="utf-8"))
    return generate(SHAPE, seed=made["seed"] + place, rate_per_s=made["rate_per_s"], requests=made["requests"])


if __name__ == "__main__":
    main()
