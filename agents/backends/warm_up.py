"""Warm-up after a change of the configuration: until the engine's steps cost what they cost once settled. Pure.

Steps are compared with those alike, of equal powers of two of batched tokens and of running requests: what a step costs
depends on what is in it. What is settled is the second half of the watch.

Guarantee: an engine with too few steps to tell by has no measurement, rather than a warm-up of nothing.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

WATCH_S = 60.0
"""After a change; what warms up for longer than half of it is told as half of it."""
PART_S = 2.0
SETTLED = 1.1
"""Times what a step costs once settled, up to which it is; two parts in a row."""
LEAST_STEPS = 5
"""Of a part, and of each kind of step that counts as settled."""
PARTS_OF_A_STEP = ("schedule", "draft", "forward", "sample", "commit")


@dataclass(frozen=True)
class Warmed:
    """`warm_up_s` after the change steps were as quick as later; until then `lost_s` of them were spent on slowness."""

    warm_up_s: float
    lost_s: float


class WarmUp:
    """One engine's. Times are the engine's own, Unix seconds."""

    def __init__(self) -> None:
        self._begun: float | None = None
        self._revision = 0
        self._steps: list[tuple[float, tuple[int, int], float]] = []

    def begin(self, at: float, revision: int) -> None:
        """This revision came into force. A change that was watched is given up."""
        self._begun, self._revision, self._steps = at, revision, []

    def see(self, event: Mapping[str, Any]) -> Warmed | None:
        """An event of the engine's; the first step after the watch has what was measured, if anything was."""
        # A server that is being retired may go on with its last requests meanwhile.
        if self._begun is None or event.get("kind") != "step" or event.get("revision") != self._revision:
            return None
        since_s = event["time"] - self._begun
        if since_s > WATCH_S:
            steps, self._begun, self._steps = self._steps, None, []
            return measured(steps)
        seconds = sum(event.get(part) or 0.0 for part in PARTS_OF_A_STEP)
        if since_s >= 0 and seconds > 0:
            kind = event["batched_tokens"].bit_length(), event["running"].bit_length()
            self._steps.append((since_s, kind, seconds))
        return None


def measured(steps: list[tuple[float, tuple[int, int], float]]) -> Warmed | None:
    """Of (seconds since the change, kind of step, seconds that it took)."""
    settled: dict[tuple[int, int], list[float]] = defaultdict(list)
    for since_s, kind, seconds in steps:
        if since_s >= WATCH_S / 2:
            settled[kind].append(seconds)
    usual = {kind: median(seconds) for kind, seconds in settled.items() if len(seconds) >= LEAST_STEPS}
    parts: dict[int, list[float]] = defaultdict(list)
    for since_s, kind, seconds in steps:
        if since_s < WATCH_S / 2 and kind in usual:
            parts[int(since_s / PART_S)].append(math.log(seconds / usual[kind]))
    slowness = {part: math.exp(fmean(logs)) for part, logs in parts.items() if len(logs) >= LEAST_STEPS}
    if not slowness:
        return None
    known = sorted(slowness)
    ends = next(
        (part for place, part in enumerate(known) if all(slowness[one] <= SETTLED for one in known[place : place + 2])),
        known[-1] + 1,
    )
    slow = [slowness[part] for part in known if part < ends]
    return Warmed(ends * PART_S if slow else 0.0, sum(PART_S * max(0.0, 1 - 1 / ratio) for ratio in slow))
