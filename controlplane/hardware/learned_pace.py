"""How many times its own figures' seconds each part of a step takes, and what a first token takes beside its prompt.

The factors were learned of a public table of measured serving by `benchmarks/twin_measures/learned_factors.py`, which
says how; what they are off by, on rows that were held out, stands in docs/benchmarks.md, "Other hardware".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.contract.reports.model_shape import ModelShape
from controlplane.hardware.accelerators import ENGINES
from controlplane.hardware.steady_batch import Deployment, Load, Parts, parts_of, prompt_parts

TRUST_AFTER = 1.0
"""Measured points after which one believes them as much as the figures of others."""


@dataclass(frozen=True)
class Measured:
    """Mean seconds between tokens, and to the first, under a load that never ended; None: not told."""

    deployment: Deployment
    load: Load
    tpot_s: float
    ttft_s: float | None = None


@dataclass(frozen=True)
class Pace:
    """each: a factor for each of `steady_batch.NAMES`, then a layer's launches of each engine."""

    each: Parts

    def tpot_s(self, deployment: Deployment, load: Load, *, gaps_filled: bool = False) -> float:
        """Mean seconds between a request's tokens, beyond the first. gaps_filled: as of `parts_of`."""
        return self._seconds(parts_of(deployment, load, ENGINES, gaps_filled=gaps_filled))

    def prompt_s(self, deployment: Deployment, load: Load) -> float:
        """Seconds of the step that computes a prompt, alone."""
        return self._seconds(prompt_parts(deployment, load, ENGINES))

    def _seconds(self, parts: Parts) -> float:
        return sum(factor * part for factor, part in zip(self.each, parts, strict=True))


@dataclass(frozen=True)
class FirstToken:
    """prompt: times the step of its prompt; beside_s: what else each takes. together: times `TOGETHER` of all prompts,
    where a run began with all at once, as those of the table did."""

    prompt: float
    beside_s: float
    together: float

    def alone_s(self, pace: Pace, deployment: Deployment, load: Load) -> float:
        """Of a request that waits for no other's prompt."""
        return self.prompt * pace.prompt_s(deployment, load) + self.beside_s

    def measured_s(self, pace: Pace, deployment: Deployment, load: Load) -> float:
        """The mean of a run of the table, which began with all at once and had ten times as many requests."""
        each = (self.prompt, self.beside_s, self.together)
        parts = first_parts(pace, deployment, load)
        return sum(factor * part for factor, part in zip(each, parts, strict=True))


TOGETHER = 0.05
"""Of a run's mean: one in ten waits for half of the prompts that began with it."""


def first_parts(pace: Pace, deployment: Deployment, load: Load) -> tuple[float, float, float]:
    """What `FirstToken` has a factor for; the second is a second."""
    prompt_s = pace.prompt_s(deployment, load)
    return prompt_s, 1.0, TOGETHER * load.concurrency * prompt_s


def waiting_s(prompt_s: float, per_s: float) -> float:
    """Mean seconds that a prompt waits for those before it, which come at random, `per_s` of them, and take `prompt_s`
    each, one by one (M/D/1: Pollaczek and Khinchine); infinite where more come than are computed."""
    busy = per_s * prompt_s
    return math.inf if busy >= 1.0 else busy * prompt_s / (2.0 * (1.0 - busy))


def calibration(ratios: Sequence[float]) -> float:
    """By how much what is forecast for one place is too quick, by points of measured over forecast: their geometric
    mean, its logarithm times n / (n + TRUST_AFTER), so that few points move a forecast little; 1 without points."""
    return math.exp(sum(math.log(one) for one in ratios) / (len(ratios) + TRUST_AFTER))


PACE = Pace((0.9778, 1.208, 1.483, 2.656, 1.436, 24.08, 1.466, 32.0, 71.64, 45.99, 50.54))
"""Learned of the table's 229 rows of dense models (docs/benchmarks.md, "Other hardware")."""
FIRST_TOKEN = FirstToken(0.856, 0.0356, 1.274)
EXPERTS_PACE = Pace((1.117, 1.206, 1.266, 2.753, 2.505, 15.82, 0.0, 29.8, 61.53, 82.42, 44.82))
"""Learned of all its 1,241 rows, for models with experts."""
EXPERTS_FIRST_TOKEN = FirstToken(1.515, 0.0283, 1.654)
SEEN = frozenset({"h100", "h200"})
"""Accelerators with enough rows of dense models there."""
LEARNED_OF = (7.0e9, 68.5e9)
"""Weights in the layers of the smallest and the largest dense model there (Llama 8B and 70B)."""
_BEYOND = 2.0
"""Times fewer or more weights, with which a model is still one of their size."""
FEWEST_POINTS = 3
"""Measured points from which a forecast counts as calibrated."""


@dataclass(frozen=True)
class NineOfTen:
    """What nine of ten held-out forecasts were off by, |forecast / measured - 1|: between tokens, and of the first;
    by 1 and more: how slow the measured one may be is not known."""

    between: float
    first: float


_FIRST_SEEN = {"vllm": 0.2, "trtllm": 0.65, "sglang": 0.9}
"""By engine, an accelerator held out. The rows of the last two were measured with more at once than their engines let
run, some of them: what waits for that is in no forecast."""


_OTHER_SIZE, _OTHER_SIZE_CALIBRATED = NineOfTen(0.42, 2.6), NineOfTen(0.21, 1.0)
"""A dense model held out, without points and with three."""


def is_other_size(shape: ModelShape) -> bool:
    """Whether it is a dense model much smaller or larger than those that factors were learned of."""
    smallest, largest = LEARNED_OF
    return not shape.experts and not smallest / _BEYOND <= shape.layer_weights <= largest * _BEYOND


def nine_of_ten(
    is_seen: bool, has_experts: bool, engine: str, points: int, first_points: int, *, other_size: bool = False
) -> NineOfTen:
    """points: of one's own at the same place, of tokens between and of first ones."""
    if has_experts:
        without, calibrated = NineOfTen(0.52, 0.8), NineOfTen(0.32, 0.57)
    elif other_size:
        without, calibrated = _OTHER_SIZE, _OTHER_SIZE_CALIBRATED
    elif is_seen:
        without, calibrated = NineOfTen(0.12, _FIRST_SEEN[engine]), NineOfTen(0.12, min(_FIRST_SEEN[engine], 0.57))
    else:
        without, calibrated = NineOfTen(0.4, 0.9), NineOfTen(0.15, 0.57)
    return NineOfTen(
        (calibrated if points >= FEWEST_POINTS else without).between,
        (calibrated if first_points >= FEWEST_POINTS else without).first,
    )
