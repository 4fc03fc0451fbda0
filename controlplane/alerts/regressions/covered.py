"""Whether the alerts of its parts tell what the end-to-end duration has lost.

A request lasts as long as its first token takes and the gaps after it. While one of these is in alarm and makes up at
least half of the growth, the whole tells nothing new. A fault elsewhere (sending, time nobody accounts for) is not
hidden by a small one there.
"""

from collections.abc import Sequence

import numpy as np

from controlplane.alerts.regressions.baseline import FLEET
from controlplane.alerts.regressions.detector import Detector
from controlplane.alerts.windows.history import History, Window, merged
from controlplane.contract.histogram import AXIS_LENGTH, upper_edge
from controlplane.contract.metrics import E2E, ITL, TTFT
from controlplane.evidence.sketch import Sketch

EXPLAINED = 1 / 2
RECENT_S = 60.0
"""Of so much time: a part that recovers a moment before the whole does still tells it, and no longer."""
_BUCKET_S = np.array([upper_edge(position) for position in range(AXIS_LENGTH)])


def is_covered(detector: Detector, history: History, window: Window) -> bool:
    """Judged over the newest requests, against the end-to-end duration's own baseline."""
    keys = detector.alarmed(E2E.short)
    baseline = detector.baseline(keys[0]) if keys else None
    parts = [part for part in (TTFT.short, ITL.short) if _told(detector, part, window.start_s)]
    if baseline is None or not parts:
        return False
    since_s = max(detector.stream(keys[0]).onset_s or window.start_s, window.start_s - RECENT_S)
    past = [one for one in history.windows if baseline.start_s <= one.start_s <= baseline.end_s]
    slow = [one for one in history.windows if since_s <= one.start_s <= window.start_s]
    only = keys[0].bucket if keys[0].bucket not in (FLEET, "") else None
    grown, *of_parts = (
        _per_request(slow, metric, only) - _per_request(past, metric, only) for metric in (E2E.short, *parts)
    )
    return sum(max(growth, 0.0) for growth in of_parts) >= EXPLAINED * grown


def _told(detector: Detector, metric: str, at_s: float) -> bool:
    """Whether a part is in alarm, or was so a moment ago."""
    return any(
        learner.alarmed or any(end_s > at_s - RECENT_S for _, end_s in learner.own)
        for (of, _), learner in detector.learners.items()
        if of == metric
    )


def _per_request(windows: Sequence[Window], metric: str, bucket: str | None) -> float:
    """Seconds of this part that a request takes on average, from the buckets of the histograms."""
    requests = merged(windows, E2E.short, bucket).count
    return _sum_s(merged(windows, metric, bucket)) / requests if requests else 0.0


def _sum_s(sketch: Sketch) -> float:
    return float(np.dot(sketch.counts, _BUCKET_S))
