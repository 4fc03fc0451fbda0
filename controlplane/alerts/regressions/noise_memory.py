"""What longer ago showed of how a stream's lines wander: a baseline of hours shows slow noise only a few times. Pure.

Once in a baseline's length what the baseline shows is added, by scale; older stretches count less each time, so that
the memory is of a few days.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.evidence.wander import Earlier, Seen

KEPT = 0.875
"""Of what is remembered, at each new stretch: eight baselines' worth at most, two days of six hours each."""


@dataclass
class NoiseMemory:
    """by_line: differences by scale; until_s: seconds since the epoch, what it holds ends there."""

    by_line: dict[str, list[Earlier]] = field(default_factory=dict)
    until_s: float = -math.inf

    def add(self, seen: Mapping[str, Sequence[Seen]], start_s: float, end_s: float) -> None:
        """A stretch of each line; one that overlaps with what is held already is left out."""
        if start_s < self.until_s:
            return
        self.until_s = end_s
        for line, fresh in seen.items():
            held = {one.scale: one._replace(pairs=KEPT * one.pairs) for one in self.by_line.get(line, ())}
            for one in fresh:
                _, pairs, noise = held.get(one.scale, Earlier(one.scale, 0.0, 0.0))
                noise = (pairs * noise + one.pairs * (one.square - one.sampling)) / (pairs + one.pairs)
                held[one.scale] = Earlier(one.scale, pairs + one.pairs, noise)
            self.by_line[line] = list(held.values())

    def dump(self) -> dict[str, Any]:
        """Short, as it is stored at each tick: a line's scales in one string, to four digits."""
        until_s = self.until_s if math.isfinite(self.until_s) else None
        told = {
            line: " ".join(":".join(f"{part:.4g}" for part in one) for one in held)
            for line, held in self.by_line.items()
        }
        return {"by_line": told, "until_s": until_s}

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> "NoiseMemory":
        until_s = state.get("until_s")
        held = {}
        for line, told in state.get("by_line", {}).items():
            parts = [one.split(":") for one in told.split()]
            held[line] = [Earlier(int(scale), float(pairs), float(noise)) for scale, pairs, noise in parts]
        return cls(held, -math.inf if until_s is None else float(until_s))
