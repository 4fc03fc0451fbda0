"""The levels of the store: windows of 5 s, 10 s, 1 min, 5 min and 1 h, each a multiple of the one before (pure).

A level's windows count its resolution in seconds since the epoch. Of each level the store knows from which window on it
is kept, and up to which it is built. Below `built_to` a level holds exactly the sum of the finer one; below `kept_from`
it holds nothing. The finest level is built by folding: what is not in it yet is in the head.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import orjson

from controlplane.contract.metrics import WINDOW_S
from controlplane.telemetry.values.frame_partitions import RESOLUTIONS_S

BASE_S = int(WINDOW_S)
COARSER: tuple[int, ...] = tuple(RESOLUTIONS_S[1:])
FINER_OF: dict[int, int] = dict(zip(COARSER, RESOLUTIONS_S, strict=False))
"""A coarser level to the one that it is built from."""
HOUR_S = 3600
"""Levels are pruned by whole hours: these are edges of windows at every level."""


@dataclass(frozen=True)
class Level:
    """Windows kept_from .. built_to - 1 are there; both count the level's own windows."""

    resolution: int
    kept_from: int = 0
    built_to: int = 0


@dataclass(frozen=True)
class FoldState:
    """What the store knows of itself: how many folds it has seen, and its levels by resolution."""

    number: int
    levels: Mapping[int, Level]

    @classmethod
    def first(cls) -> Self:
        """Of an empty store."""
        return cls(0, {resolution: Level(resolution) for resolution in RESOLUTIONS_S})

    @classmethod
    def first_at(cls, boundary_s: int) -> Self:
        """Of an empty store that begins now: up to then, every level holds the sum of nothing."""
        return cls(0, {one: Level(one, 0, boundary_s // one) for one in RESOLUTIONS_S})

    @classmethod
    def load(cls, number: int, levels: str) -> Self:
        given = {int(resolution): values for resolution, values in orjson.loads(levels).items()}
        return cls(number, {resolution: Level(resolution, *given[resolution]) for resolution in RESOLUTIONS_S})

    def dump(self) -> str:
        """The levels as JSON."""
        return orjson.dumps(
            {str(one.resolution): [one.kept_from, one.built_to] for one in self.levels.values()}
        ).decode()

    def next(self, *changed: Level) -> Self:
        """The state after one more fold."""
        return replace(self.having(*changed), number=self.number + 1)

    def having(self, *changed: Level) -> Self:
        """The same with other levels."""
        return replace(self, levels={**self.levels, **{level.resolution: level for level in changed}})


def window_of(base_window: int, resolution: int) -> int:
    """The window of a level that a window of the finest one lies in."""
    return base_window * BASE_S // resolution


def prunable_to(state: FoldState, resolution: int) -> int:
    """The window up to which a level may be pruned: what a coarser one is still to be built of must stay."""
    level = state.levels[resolution]
    coarser = next((one for one, finer in FINER_OF.items() if finer == resolution), None)
    built_s = level.built_to * resolution if coarser is None else state.levels[coarser].built_to * coarser
    return built_s // HOUR_S * HOUR_S // resolution
