"""What the twin of a pool that runs vLLM forecasts for all configurations of vLLM's measured surface, kept beside it.

    python -m benchmarks.tuner_measures.from_forecasts.vllm_forecasts --surface benchmarks/.../vllm_40.json

As `surface_forecasts`: a stepped vLLM serves other traffic of the surface's kind under a pool's configuration, the
product's own forecast is fitted to what the plugin tells of it, and vLLM's own scheduler plans the surface's slices.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from transformers import AutoTokenizer

from agents.backends.vllm.doctor.installation import default_executable
from agents.engine.options import BUNDLED
from benchmarks.engine_measures.machine import commit, describe_machine
from benchmarks.tuner_measures.engine_grid import CORPUS_TOKENS, traffic
from benchmarks.tuner_measures.from_forecasts.surface_forecasts import (
    NAMES,
    SHAPE,
    defaults,
    kept_at,
    paced,
    ratios,
)
from benchmarks.tuner_measures.known_surfaces import configurations
from benchmarks.tuner_measures.measured_surface import measured
from benchmarks.tuner_measures.stepped_vllm import SteppedVllm
from benchmarks.twin_measures.against_vllm import task_of_vllm
from controlplane.contract.bodies.workload import Workload
from controlplane.contract.knobs import canonical_json, parse_config
from tuner.twin.costs.step_terms import NAMES as TERMS
from tuner.twin.costs.step_terms import StepCost
from tuner.twin.forecast import Planner, forecast
from tuner.twin.known_pool import drafts_of, known_of, shape_of
from tuner.twin.outside_steps import around
from tuner.twin.pool_run import Pool
from tuner.twin.vllm_twin import vllm_planner
from tuner.workload.corpus import read_tokens
from tuner.workload.generate import generate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--surface", type=Path, required=True, help="as engine_grid made it")
    parser.add_argument("--defaults", type=int, default=10)
    parser.add_argument("--requests", type=int, default=800)
    parser.add_argument("--seed", type=int, default=101)
    given = parser.parse_args()
    made = json.loads(given.surface.read_text(encoding="utf-8"))
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED)
    corpus = read_tokens(lambda text: tokenizer.encode(text, add_special_tokens=False), CORPUS_TOKENS)
    arrivals = traffic(given.seed, given.requests, made["rate_per_s"], corpus)
    trace = generate(SHAPE, seed=given.seed, rate_per_s=made["rate_per_s"], requests=given.requests)
    told: dict[str, Any] = {
        "machine": describe_machine(),
        "commit": commit(),
        "requests": given.requests,
        "rate_per_s": made["rate_per_s"],
        "seed": given.seed,
        "errors": {},
        "forecasts": {},
    }
    asked = configurations(measured(0, given.surface).space)
    python = default_executable().absolute().with_name("python")
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        engine = ends.enter_context(SteppedVllm(BUNDLED, folder))
        served = [
            (knobs, engine.events(arrivals, parse_config(knobs)))
            for knobs in defaults(given.defaults, partial(measured, path=given.surface))
        ]
        planner = replace(ends.enter_context(vllm_planner(python)), draws=0)
        for knobs, events in served:
            began, key = time.monotonic(), canonical_json(knobs)
            errors, pool = _fitted(events, trace, knobs, planner)
            told["errors"][key] = {name: round(errors[name], 3) for name in NAMES}
            told["forecasts"][key] = [
                ratios(paced(pool, 1 - place, given.surface), place, asked, given.surface) for place in (0, 1)
            ]
            kept_at(given.surface).write_text(json.dumps(told, separators=(",", ":")) + "\n", encoding="utf-8")
            print(f"{key}: {time.monotonic() - began:.1f} s, off {told['errors'][key]}", flush=True)


def _fitted(
    events: Sequence[dict[str, Any]], trace: Workload, knobs: Mapping[str, Any], planner: Planner
) -> tuple[Mapping[str, float], Pool]:
    """The forecast's errors, and the pool in the twin."""
    config = parse_config(knobs)
    task = task_of_vllm(events, trace, config, {})
    answer, known = forecast(task, planner), known_of(task)
    pool = Pool(
        shape_of(known, 1.0, 1.0),
        config,
        StepCost.of(answer.fit[name] for name in TERMS),
        drafts=drafts_of(known),
        around=around(known.records, taken_between_steps=planner.taken_between_steps),
        serve=planner.serve,
    )
    return answer.error, pool


if __name__ == "__main__":
    main()
