"""The twin's forecasts beside the real engine: configurations and a trace that it was not fitted to.

It is fitted to the steps of one trace under one configuration (the calibration), and then forecasts another trace under
every configuration. It is calibrated three times a round, between the others: the machine's pace wanders meanwhile.
Pauses and intervals are as the product makes them: what passes between steps so that the median time per output token
of the calibration is as measured; the spread of resampled fits and of the pace from stretch to stretch, widened
by the error on what was calibrated on. Told: relative errors, whether intervals cover, and how alike both rank the
configurations. A round tells of the twin and of how far the machine's pace went meanwhile; all rounds together, fitted
to all calibrations and held against the middle of what was measured, tell of the twin.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.twin_measures.recorded_engine import RecordedEngine
from controlplane.contract.bodies.workload import Workload
from controlplane.contract.knobs import EngineConfig, parse_config
from controlplane.contract.metrics import TPOT, TTFT
from tuner.twin.answer.forecast_interval import interval, of_metric
from tuner.twin.costs.nonnegative_fit import Row, fit
from tuner.twin.costs.pace_wander import costs_around, wander
from tuner.twin.costs.step_pause import pause
from tuner.twin.dealt_traffic import Scale, dealt
from tuner.twin.pool_run import Pool, PoolRun, run_pool
from tuner.twin.simulated_engine import Arrival, EngineShape
from tuner.workload.generate import SHAPES, fitted, generate
from tuner.workload.trace import hash_id

CALIBRATION = parse_config({"max_num_batched_tokens": 256, "max_num_seqs": 16})
UNSEEN: Sequence[EngineConfig] = [
    parse_config({"max_num_batched_tokens": tokens, "max_num_seqs": seqs, "prefill_chunk_size": chunk})
    for tokens, seqs, chunk in ((64, 16, 0), (128, 8, 0), (256, 4, 0), (512, 32, 0), (512, 16, 128), (1024, 2, 0))
]
WANTED = (("ttft:0.95", TTFT.short, 0.95), ("ttft:0.99", TTFT.short, 0.99), ("tpot:0.5", TPOT.short, 0.5))
_DRAWS = 6
_FIRST, _TOKENS = 10, 2000
"""Ids that every model has and that are nothing special."""


@dataclass(frozen=True)
class Compared:
    """One configuration: seconds measured and forecast, with the interval, by `metric:q`."""

    config: EngineConfig
    measured: dict[str, float]
    forecast: dict[str, tuple[float, float, float]]


@dataclass(frozen=True)
class Measured:
    """What the engine did: the steps of the calibration and its figures, and those of each configuration."""

    steps: Sequence[Row]
    calibration: dict[str, float]
    unseen: Sequence[dict[str, float]]


def compare(
    model: Path, requests: int, rate: float, seed: int, rounds: int, kv_bytes: int = 64 * 2**20, **options: Any
) -> Iterator[tuple[list[Compared], ...]]:
    """Of each round, and of all rounds so far together. Each calibrates anew, and before every second configuration.
    options: those of the engine besides."""
    engine = RecordedEngine(model, kv_bytes, **options)
    known, trace = trace_of(seed, requests, rate), trace_of(seed + 1, requests, rate)
    seen: list[Measured] = []
    for _ in range(rounds):
        calibrations, unseen = [], []
        for place, config in enumerate(UNSEEN):
            if place % 2 == 0:
                calibrations.append(engine.serve(arrivals_of(known), CALIBRATION))
            unseen.append(engine.serve(arrivals_of(trace), config).figures())
        steps = [row for served in calibrations for row in served.steps]
        seen.append(Measured(steps, _middle([served.figures() for served in calibrations]), unseen))
        yield tuple(_forecast(engine.shape, known, trace, seed, one) for one in (seen[-1], _all(seen)))


def _all(rounds: Sequence[Measured]) -> Measured:
    """The steps of all, in their order in time, and the middle of each figure."""
    return Measured(
        [row for one in rounds for row in one.steps],
        _middle([one.calibration for one in rounds]),
        [_middle(several) for several in zip(*(one.unseen for one in rounds), strict=True)],
    )


def _middle(several: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: median(one[name] for one in several) for name, *_ in WANTED}


def _forecast(shape: EngineShape, known: Workload, trace: Workload, seed: int, seen: Measured) -> list[Compared]:
    calibrated, real = fit(seen.steps, _DRAWS, seed), seen.calibration
    pool = Pool(shape, CALIBRATION, calibrated.cost)

    def again(between_s: float) -> PoolRun:
        return run_pool(replace(pool, cost=calibrated.cost.after(between_s)), known, Scale())

    between_s = pause(lambda one_s: again(one_s).quantile(TPOT.short, 0.5), real["tpot:0.5"])
    calibration = again(between_s)
    off = {name: (calibration.quantile(metric, q) or 0.0) / real[name] - 1 for name, metric, q in WANTED}
    costs = costs_around(calibrated, wander(seen.steps, calibrated.cost))
    found = []
    for config, measured in zip(UNSEEN, seen.unseen, strict=True):
        runs = [run_pool(Pool(shape, config, cost.after(between_s)), trace, Scale()) for cost in costs]
        forecast = {}
        for name, metric, q in WANTED:
            low, middle, high = interval([run.quantile(metric, q) or 0.0 for run in runs], of_metric(off, metric))
            forecast[name] = (middle, low, high)
        found.append(Compared(config, measured, forecast))
    return found


def report(rounds: Sequence[Sequence[Compared]]) -> str:
    """Errors of each forecast, whether its interval covers and how wide that is, beside how far the engine is from
    itself, from round to round."""
    first = rounds[0]
    names = list(first[0].measured)
    lines = ["| the first | " + " | ".join(f"{name} measured, forecast, error" for name in names) + " |"]
    lines += ["|---|" + "---|" * len(names)]
    for one in first:
        cells = []
        for name in names:
            real, (value, _, _) = one.measured[name], one.forecast[name]
            cells.append(f"{1e3 * real:.1f} ms, {1e3 * value:.1f} ms, {value / real - 1:+.1%}")
        knobs = one.config
        label = f"{knobs.max_num_batched_tokens} tokens, {knobs.max_num_seqs} seqs, chunk {knobs.prefill_chunk_size}"
        if knobs.num_speculative_tokens:
            label += f", drafts of {knobs.num_speculative_tokens}"
        lines.append(f"| {label} | {' | '.join(cells)} |")
    lines.append("")
    every = [one for found in rounds for one in found]
    for name in names:
        errors = [abs(one.forecast[name][0] / one.measured[name] - 1) for one in every]
        covered = sum(one.forecast[name][1] <= one.measured[name] <= one.forecast[name][2] for one in every)
        wide = np.median([one.forecast[name][2] / one.forecast[name][1] for one in every])
        truths = [[one.measured[name] for one in found] for found in rounds]
        told = [[one.forecast[name][0] for one in found] for found in rounds]
        taus = list(map(kendall, truths, told))
        itself = [abs(b / a - 1) for one, other in pairwise(truths) for a, b in zip(one, other, strict=True)]
        own_tau = [kendall(one, other) for one, other in pairwise(truths)]
        lines.append(
            f"- {name}: median error {np.median(errors):.1%}, worst {max(errors):.1%}, tau {np.mean(taus):.2f}; "
            f"intervals cover {covered} of {len(every)}, of which the middle one's ends are {wide:.2f} times apart"
        )
        if itself:
            lines[-1] += f"; the engine beside itself: {np.median(itself):.1%}, tau {np.mean(own_tau):.2f}"
    return "\n".join(lines)


def kendall(one: Sequence[float], other: Sequence[float]) -> float:
    """Kendall's tau a: agreeing pairs less disagreeing ones, of all."""
    pairs = list(combinations(range(len(one)), 2))
    signs = [np.sign(one[i] - one[j]) * np.sign(other[i] - other[j]) for i, j in pairs]
    return float(sum(signs) / len(pairs))


def trace_of(seed: int, requests: int, rate: float) -> Workload:
    return generate(fitted(SHAPES["chat"], max_input=900, max_output=64), seed=seed, rate_per_s=rate, requests=requests)


def arrivals_of(trace: Workload) -> list[Arrival]:
    """As the twin's, with tokens that the model has; equal where those are equal."""
    ((_, arrivals),) = dealt(trace, 1, Scale(), 0)
    return [replace(one, prompt=partial(_known_tokens, one.prompt)) for one in arrivals]


def _known_tokens(prompt: Callable[[], Sequence[int]]) -> list[int]:
    return [_FIRST + hash_id(token, place) % _TOKENS for place, token in enumerate(prompt())]
