"""Whether the alerts of its parts tell what the end-to-end duration has lost.

A request lasts as long as its first token takes and the gaps after it. While one of these is in alarm and makes up at
least half of the growth, the whole tells nothing new. A fault elsewhere (sending, time nobody accounts for) is not
hidden by a small one there.
"""

from collections.abc import Sequence

import numpy as np

from controlplane.alerts.baseline import FLEET
from controlplane.alerts.detector import Detector
from controlplane.alerts.history import History, Window, merged
from controlplane.contract.histogram import AXIS_LENGTH, upper_edge
from controlplane.contract.metrics import E2E, ITL, TTFT
from controlplane.telemetry.sketch import Sketch

EXPLAINED = 1 / 2
_BUCKET_S = np.array([upper_edge(position) for position in range(AXIS_LENGTH)])


def is_covered(detector: Detector, history: History, window: Window, alarmed: Sequence[str]) -> bool:
    """Judged over the span in which the end-to-end duration is suspected, against its own baseline's."""
    parts = [metric for metric in alarmed if metric != E2E.short]
    if not parts:
        return False
    whole = next((key for key in detector.alarmed(E2E.short)), None)
    baseline = None if whole is None else detector.baseline(whole)
    if whole is None or baseline is None or not {*parts} & {TTFT.short, ITL.short}:
        return True
    onset_s = detector.stream(whole).onset_s or window.start_s
    past = [one for one in history.windows if baseline.start_s <= one.start_s <= baseline.end_s]
    slow = [one for one in history.windows if onset_s <= one.start_s <= window.start_s]
    only = whole.bucket if whole.bucket not in (FLEET, "") else None
    grown = _per_request(slow, E2E.short, only) - _per_request(past, E2E.short, only)
    explained = sum(
        max(_per_request(slow, part, only) - _per_request(past, part, only), 0.0)
        for part in (TTFT.short, ITL.short)
        if part in parts
    )
    return explained >= EXPLAINED * grown


def _per_request(windows: Sequence[Window], metric: str, bucket: str | None) -> float:
    """Seconds of this part that a request takes on average, from the buckets of the histograms."""
    requests = merged(windows, E2E.short, bucket).count
    return _sum_s(merged(windows, metric, bucket)) / requests if requests else 0.0


def _sum_s(sketch: Sketch) -> float:
    return float(np.dot(sketch.counts, _BUCKET_S))
