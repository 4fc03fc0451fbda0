"""A twin fitted to the steps of several runs together, each under a configuration of its own. Pure but for what it
is given.

Columns of the fit are the twin's terms; a step, its tokens and its sampled places cost otherwise in each weight format.
The surface was measured on another day: one factor on the pace makes the medians of these runs as they were there.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from benchmarks.tuner_measures.from_forecasts.surface_forecasts import NAMES, slice_of
from benchmarks.twin_measures.recorded_engine import Served
from benchmarks.twin_measures.recorded_task import task_of
from controlplane.contract.knobs import QUANTIZATION, parse_config
from controlplane.contract.planning.whatif import TwinTask
from tuner.twin.assumed_drafts import Drafts
from tuner.twin.costs.step_terms import StepCost
from tuner.twin.costs.telemetry_fit import piece_of, rows
from tuner.twin.dealt_traffic import Scale
from tuner.twin.pool_run import Pool, run_pool
from tuner.twin.simulated_engine import EngineShape

WIDTH_S = 0.2
"""Of a window of telemetry: about ten a run, as a trial of a minute has."""
_OWN, _SHARED = (0, 1, 3), (2, 4, 5)
"""Terms that each weight format has for itself, and those that all have together."""
_ROUNDS, _HALVINGS = 6, 6
_PACES = (0.2, 3.0)


@dataclass(frozen=True)
class Fitted:
    """costs: by weight format."""

    shape: EngineShape
    costs: Mapping[str, StepCost]
    drafts: Drafts

    def figures(self, key: str, place: int) -> list[float]:
        """Of this configuration, as JSON, on that slice: seconds, in the order of `NAMES`."""
        knobs = json.loads(key)
        run = run_pool(
            Pool(self.shape, parse_config(knobs), self.costs[knobs[QUANTIZATION]], drafts=self.drafts),
            slice_of(place),
            Scale(),
        )
        found = []
        for name in NAMES:
            metric, q = name.split(":")
            value = run.quantile(metric, float(q))
            assert value is not None
            found.append(value)
        return found

    def paced(self, measured: Mapping[str, float], place: int) -> "Fitted":
        """As quick as these runs' medians say, by configuration."""
        low, high = _PACES
        for _ in range(_HALVINGS):
            middle = math.sqrt(low * high)
            tried = self._scaled(middle)
            off = sum(math.log(tried.figures(key, place)[0] / real_s) for key, real_s in measured.items())
            low, high = (low, middle) if off > 0.0 else (middle, high)
        return self._scaled(math.sqrt(low * high))

    def _scaled(self, factor: float) -> "Fitted":
        return replace(self, costs={name: cost.scaled(factor) for name, cost in self.costs.items()})


def fitted(shape: EngineShape, runs: Mapping[str, Sequence[Served]], keys: Sequence[str], place: int) -> Fitted:
    """To what was told of these configurations on that slice."""
    tasks = {key: task_of(runs[key][place], slice_of(place), parse_config(json.loads(key)), WIDTH_S) for key in keys}
    formats = sorted({json.loads(key)[QUANTIZATION] for key in keys})
    blocks, seconds = list[NDArray[np.float64]](), list[float]()
    for key, task in tasks.items():
        told = rows(task.records, task.windows, piece_of(task.config))
        terms = np.array([row.terms for row in told], dtype=float)
        own = np.zeros((len(told), len(_SHARED) + len(_OWN) * len(formats)))
        own[:, : len(_SHARED)] = terms[:, _SHARED]
        begin = len(_SHARED) + len(_OWN) * formats.index(json.loads(key)[QUANTIZATION])
        own[:, begin : begin + len(_OWN)] = terms[:, _OWN]
        blocks.append(own)
        seconds += [row.seconds for row in told]
    each = _solved(np.concatenate(blocks), np.array(seconds))
    prompts, context, attended = each[: len(_SHARED)].tolist()
    costs = {}
    for number, name in enumerate(formats):
        begin = len(_SHARED) + len(_OWN) * number
        steps, tokens, sampled = each[begin : begin + len(_OWN)].tolist()
        costs[name] = StepCost((steps, tokens, prompts, sampled, context, attended))
    return Fitted(shape, costs, _drafts([task for task in tasks.values() if task.config.draft_length(1)]))


def _solved(terms: NDArray[np.float64], seconds: NDArray[np.float64]) -> NDArray[np.float64]:
    """As `nonnegative_fit` does it, for as many columns as there are and one pace."""
    each, expected = np.zeros(terms.shape[1]), seconds
    for _ in range(_ROUNDS):
        relative = terms / expected[:, None]
        scale = relative.max(axis=0)
        scale[scale == 0.0] = 1.0
        each = nnls(relative / scale, seconds / expected)[0] / scale
        predicted = terms @ each
        expected = np.where(predicted > 0.0, predicted, seconds)
    return each


def _drafts(tasks: Sequence[TwinTask]) -> Drafts:
    if not tasks:
        return Drafts()
    windows = [window for task in tasks for window in task.windows]
    length = round(float(np.mean([task.config.draft_length(1) for task in tasks])))
    seen = Drafts.seen(
        sum(one.drafted for one in windows),
        sum(one.accepted for one in windows),
        sum(one.deliveries for one in windows),
        length,
    )
    drafted, accepted = (
        [sum(column) for column in zip_longest(*places, fillvalue=0.0)]
        for places in ([task.drafted_at for task in tasks], [task.accepted_at for task in tasks])
    )
    return seen.at_places(drafted, accepted)
