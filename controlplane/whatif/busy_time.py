"""How long a node computed, by its requests: the union of their spans, cut at the windows of telemetry. Pure.

While a request is between its first schedule and its last token the engine steps without a pause, so that this is what
the steps took of an engine that tells no step's duration.
"""

import math
from collections import defaultdict
from collections.abc import Iterable

from controlplane.contract.planning.whatif import ComputedSpan, in_windows


def busy_s(spans: Iterable[ComputedSpan], width_s: float) -> dict[int, float]:
    """Seconds of each window in which one request or more was computed, by the window's number since the epoch; those
    without any are left out."""
    found: dict[int, float] = defaultdict(float)
    until_s = -math.inf
    for span in sorted(spans, key=lambda one: one.scheduled_s):
        start_s = max(span.scheduled_s, until_s)
        if start_s < span.last_token_s:
            for number, inside_s in in_windows(start_s, span.last_token_s, width_s):
                found[number] += inside_s
            until_s = span.last_token_s
    return dict(found)
