"""Who watches the worlds: the product's detector, with and without courses, and the rules that others run.

A method takes a world's chunks from its start and says at which seconds it raised an alarm, judging after `WARM_S`.
After an alarm it is silent for `REST_S`, as an alert that is open.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np

from benchmarks.detection_measures.model import ExceedancesAlone, is_due
from benchmarks.detection_measures.worlds import BUCKETS, Chunk
from controlplane.alerts.regressions.detector import Detector
from controlplane.alerts.windows.history import Tail, Window
from controlplane.alerts.windows.load import LoadMeter
from controlplane.contract.bodies.alerts import RegressionCondition
from controlplane.contract.histogram import SCALE
from controlplane.contract.metrics import WINDOW_S
from controlplane.evidence.sketch import Sketch

WARM_S = 6 * 3600.0
REST_S = 1800.0
RULE_TICKS = 60

Method = Callable[[Iterable[Chunk]], list[float]]


def product(metric: str, kind: type[Detector] = Detector) -> Method:
    """The regression rule as it is installed, on one metric: `ttft` as measured, or `prefill`, freed of waiting."""

    def watch(chunks: Iterable[Chunk]) -> list[float]:
        detector = kind(RegressionCondition(metrics=[metric]))
        meter, windows, raised, quiet_until_s = LoadMeter(), list[Window](), list[float](), 0.0
        was_alarmed = False
        for chunk in chunks:
            histograms = chunk.ttft if metric == "ttft" else chunk.prefill
            for tick in range(chunk.arrived.size):
                start_s = chunk.start_s + tick * WINDOW_S
                load = meter.push(start_s, {"n": int(chunk.arrived[tick])}, {})
                counted = {name: histograms[tick, place] for place, name in enumerate(BUCKETS)}
                tails = {name: Tail.of(Sketch(counts=one)) for name, one in counted.items() if one.any()}
                window = Window(start_s, load, {metric: tails} if tails else {})
                if start_s >= WARM_S:
                    detector.advance(window, windows if is_due(detector, window) else windows[:1])
                windows.append(window)
                alarmed = bool(detector.alarmed(metric))
                if alarmed and not was_alarmed and start_s >= quiet_until_s:
                    raised.append(start_s + WINDOW_S)
                    quiet_until_s = start_s + REST_S
                was_alarmed = alarmed
            del windows[: max(0, len(windows) - round((WARM_S + 3600) / WINDOW_S))]
        return raised

    return watch


def p99_rule(metric: str = "ttft", factor: float = 1.2) -> Method:
    """`p99[5m] > factor x the p99 of the six hours before, for 5m`, renewed each hour."""

    def watch(chunks: Iterable[Chunk]) -> list[float]:
        held, raised, lasted, quiet_until_s = list[np.ndarray](), list[float](), 0, 0.0
        recent = np.zeros((0, 2))
        for chunk in chunks:
            now = (chunk.ttft if metric == "ttft" else chunk.prefill).sum(axis=1)
            if chunk.start_s >= WARM_S:
                usual = np.cumsum(sum(held))
                edge = int(np.searchsorted(usual, 0.99 * usual[-1])) + round(math.log2(factor) * 2**SCALE)
                pairs = np.stack([now.sum(axis=1), now[:, edge + 1 :].sum(axis=1)], axis=1)
                series = np.concatenate([recent, pairs])
                sums = np.concatenate([np.zeros((1, 2)), np.cumsum(series, axis=0)])
                for tick in range(recent.shape[0], series.shape[0]):
                    count, above = sums[tick + 1] - sums[max(0, tick + 1 - RULE_TICKS)]
                    lasted = lasted + 1 if count and above / count > 0.01 else 0
                    at_s = chunk.start_s + (tick - recent.shape[0] + 1) * WINDOW_S
                    if lasted >= RULE_TICKS and at_s >= quiet_until_s:
                        raised.append(at_s)
                        quiet_until_s = at_s + REST_S
                recent = series[-RULE_TICKS:]
            held = [*held, now.sum(axis=0)][-round(WARM_S / 3600) :]
        return raised

    return watch


METHODS: dict[str, Method] = {
    "product, ttft": product("ttft"),
    "product, prefill": product("prefill"),
    "exceedances alone, prefill": product("prefill", ExceedancesAlone),
    "p99 rule, ttft": p99_rule(),
    "p99 rule, prefill": p99_rule("prefill"),
}
