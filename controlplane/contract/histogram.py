"""The fixed bucket axis of every latency histogram, and the arithmetic on it.

Buckets are OpenTelemetry base-2 exponential ones (OpenTelemetry metrics data model, "ExponentialHistogram"):
base = 2 ** (2 ** -SCALE), bucket i covers (base ** i, base ** (i + 1)]. The axis runs from AXIS_MIN to AXIS_MAX
inclusive: about 1 microsecond to 1,000 seconds. Values at or below ZERO_THRESHOLD_S go to the zero bucket.

Guarantee: a quantile read from a histogram on this axis is off by at most `RELATIVE_ERROR`
(half a bucket, geometric), for values inside the axis; merging adds nothing to the error.
"""

import math
from collections.abc import Sequence

SCALE = 5
BASE: float = 2.0 ** (2.0**-SCALE)
AXIS_MIN: int = -20 * 2**SCALE  # 2**-20 s, about 0.95 microseconds
AXIS_MAX: int = 10 * 2**SCALE - 1  # up to 1,024 s
AXIS_LENGTH = AXIS_MAX - AXIS_MIN + 1
ZERO_THRESHOLD_S = 2.0**-20
RELATIVE_ERROR = BASE - 1.0
"""Worst case of a log-interpolated quantile inside one bucket, 2.2 %; typically a tenth of that."""


def bucket_index(value: float, scale: int = SCALE) -> int:
    """The OTLP bucket index of a positive value: ceil(log2(v) * 2**scale) - 1."""
    return math.ceil(math.ldexp(math.log2(value), scale)) - 1


def axis_position(value: float) -> int:
    """The position of a value on the fixed axis, 0 .. AXIS_LENGTH - 1, clamped to its ends: 0 is at the first."""
    if value <= 0.0:
        return 0
    return min(max(bucket_index(value), AXIS_MIN), AXIS_MAX) - AXIS_MIN


def upper_edge(position: int) -> float:
    """The upper edge, in the value's unit, of the bucket at `position` on the fixed axis."""
    return math.exp2((position + AXIS_MIN + 1) / 2**SCALE)


def quantile(
    counts: Sequence[int], q: float, *, zero_count: int = 0, minimum: float = 0.0, maximum: float = math.inf
) -> float:
    """The q-quantile of a histogram on the fixed axis, log-interpolated inside its bucket.

    counts: AXIS_LENGTH integers. The rank is q * (n - 1), as numpy's default. The answer is clamped to
    [minimum, maximum]. Raises ValueError on an empty histogram or a q outside 0..1.
    """
    if not 0.0 <= q <= 1.0:
        raise ValueError(f"q must be within 0 and 1, got {q}")
    total = zero_count + sum(counts)
    if total == 0:
        raise ValueError("a quantile of no values")
    rank = q * (total - 1)
    if rank < zero_count:
        return min(max(0.0, minimum), maximum)
    below = zero_count
    for position, count in enumerate(counts):
        if count and rank < below + count:
            fraction = (rank - below + 0.5) / count
            value = math.exp2((position + AXIS_MIN + min(fraction, 1.0)) / 2**SCALE)
            return min(max(value, minimum), maximum)
        below += count
    return maximum if math.isfinite(maximum) else upper_edge(len(counts) - 1)


def is_coarse(relative_error: float) -> bool:
    """Whether quantiles are worse than the axis itself makes them: somebody else's wider buckets are in them."""
    return relative_error > RELATIVE_ERROR * (1.0 + 1e-6)


def error_text(relative_error: float) -> str:
    """For people: "± 67 %: from /metrics buckets". Empty where the axis's own error is all there is."""
    return f"± {100 * relative_error:.0f} %: from /metrics buckets" if is_coarse(relative_error) else ""
