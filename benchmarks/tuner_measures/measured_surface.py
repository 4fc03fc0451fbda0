"""Surfaces that real engines were measured on once (`engine_grid`), replayed with the noise of those measurements.

A configuration's truth is the geometric mean of its runs on one slice of traffic: seeds take the slices by turns. A
run's noise is that of one of all runs that were measured, in all of its figures at once. Another slice is another
surface, so that fresh runs here are of the same traffic.
Each seed draws limits and what the pool runs by default. `measured` has weights of 8 bits among its configurations,
which are twice as fast here whatever else is set; `full_weights` has not, as where a quality gate refuses them. `vllm`
is vLLM's, with weights as they are: 60 requests a second are about what it can serve; of `vllm_40` there are 40, and
twice as many a slice.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.tuner_measures.known_surfaces import Surface, Truth
from controlplane.contract.knobs import QUANTIZATION, EngineConfig, Quantization, canonical_json
from tuner.search.objective import Assessment
from tuner.search.space import Space

EMBEDDED, VLLM, VLLM_40 = (Path(__file__).parent / f"surfaces/{name}.json" for name in ("embedded", "vllm", "vllm_40"))
OBJECTIVE, LIMITS = "e2e:0.5", ("tpot:0.95", "ttft:0.95")
OFF = 1.2
"""A default is at least so many times as slow as the best: there is something to find."""


@dataclass(frozen=True)
class Grid:
    """What was measured. noise: float64[runs, figures], the logarithm of each run over its configuration's mean, with
    what the mean took of it given back."""

    values: dict[str, list[Any]]
    slices: list[dict[str, dict[str, float]]]
    noise: NDArray[np.float64]


@cache
def read(path: Path) -> Grid:
    told = json.loads(path.read_text(encoding="utf-8"))
    names = (OBJECTIVE, *LIMITS)
    slices: list[dict[str, dict[str, float]]] = [{}, {}]
    noise = []
    for key, both in told["runs"].items():
        for place, runs in enumerate(both):
            logs = np.log([[run[name] for name in names] for run in runs])
            mean = logs.mean(axis=0)
            slices[place][key] = dict(zip(names, np.exp(mean).tolist(), strict=True))
            if len(runs) > 1:
                noise.append((logs - mean) * math.sqrt(len(runs) / (len(runs) - 1)))
    return Grid(told["values"], slices, np.concatenate(noise))


@dataclass(frozen=True)
class ReplayedSurface(Surface):
    runs: NDArray[np.float64]
    """As `Grid.noise`."""

    def measure(self, knobs: Mapping[str, Any], random: np.random.Generator, *, fresh: bool = False) -> Assessment:
        truth = (self.fresh if fresh else self.seen)[canonical_json(knobs)]
        noise = np.exp(self.runs[random.integers(len(self.runs))])
        ratios = zip(LIMITS, noise[1:], strict=True)
        excess = {name: truth.limits[name] * float(factor) - 1.0 for name, factor in ratios}
        return Assessment(truth.objective * float(noise[0]), excess)


def full_weights(seed: int = 0, path: Path = EMBEDDED) -> ReplayedSurface:
    return measured(seed, path, quantized=False)


def vllm(seed: int = 0) -> ReplayedSurface:
    return measured(seed, VLLM)


def vllm_40(seed: int = 0) -> ReplayedSurface:
    return measured(seed, VLLM_40)


@cache
def measured(seed: int = 0, path: Path = EMBEDDED, *, quantized: bool = True) -> ReplayedSurface:
    """Limits that 10 to 35 % of the configurations keep, and a default of full weights that does or does not."""
    grid, random = read(path), np.random.default_rng(7000 + seed)
    values = {name: one for name, one in grid.values.items() if quantized or name != QUANTIZATION}
    found = {key: one for key, one in grid.slices[seed % 2].items() if quantized or is_full(key)}
    ttft = float(np.quantile([one["ttft:0.95"] for one in found.values()], random.uniform(0.4, 0.8)))
    quick = [one["tpot:0.95"] for one in found.values() if one["ttft:0.95"] <= ttft]
    share = min(1.0, float(random.uniform(0.1, 0.35)) * len(found) / len(quick))
    at = {"ttft:0.95": ttft, "tpot:0.95": float(np.quantile(quick, share))}
    table = {key: Truth(one[OBJECTIVE], {name: one[name] / at[name] for name in LIMITS}) for key, one in found.items()}
    best = min(truth.objective for truth in table.values() if truth.feasible)
    slow = [key for key in sorted(table) if is_full(key) and table[key].objective >= OFF * best]
    default = json.loads(slow[int(random.integers(len(slow)))])
    fixed = {name: value for name, value in EngineConfig().knobs().items() if name not in values}
    name = f"{path.stem} engine, measured" + ("" if quantized else ", full weights")
    return ReplayedSurface(name, Space(values, fixed), default, table, table, float(grid.noise[:, 0].std()), grid.noise)


def is_full(key: str) -> bool:
    """Whether a configuration, as JSON, has weights of full width."""
    return bool(json.loads(key)[QUANTIZATION] == Quantization.NONE.value)
