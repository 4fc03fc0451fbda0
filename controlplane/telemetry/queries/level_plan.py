"""Which level answers which part of a span (pure).

Guarantee: the parts of a plan do not overlap, each lies where its level is kept and built, and together they cover the
span, as far as anything is kept. A level is taken only where its windows fit within the span and within the steps, the
coarsest first, finer ones at the edges. Where retention has left nothing that fits, the finest level that is there
answers with those of its windows that begin within the span.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from controlplane.telemetry.values.levels import BASE_S, COARSER, Level

ALWAYS = 1 << 60
"""Beyond any window: the finest level needs no building."""


@dataclass(frozen=True)
class Part:
    """Windows first .. last - 1 of a level."""

    resolution: int
    first: int
    last: int


def plan(levels: Mapping[int, Level], first: int, last: int, step_s: int | None = None) -> list[Part]:
    """The parts for windows first .. last - 1 of the finest level, in the order of time. step_s: seconds, or None."""
    fitting = [resolution for resolution in reversed(COARSER) if step_s is None or step_s % resolution == 0]
    return list(_covered(levels, first * BASE_S, last * BASE_S, [*fitting, BASE_S]))


def _covered(levels: Mapping[int, Level], start_s: int, end_s: int, fitting: Sequence[int]) -> Iterator[Part]:
    if start_s >= end_s:
        return
    if not fitting:
        yield from _what_is_left(levels, start_s, end_s, COARSER)
        return
    resolution, *finer = fitting
    level = levels[resolution]
    first = max(-(-start_s // resolution), level.kept_from)
    last = min(end_s // resolution, ALWAYS if resolution == BASE_S else level.built_to)
    if first < last:
        yield from _covered(levels, start_s, first * resolution, finer)
        yield Part(resolution, first, last)
        yield from _covered(levels, last * resolution, end_s, finer)
    else:
        yield from _covered(levels, start_s, end_s, finer)


def _what_is_left(levels: Mapping[int, Level], start_s: int, end_s: int, coarser: Sequence[int]) -> Iterator[Part]:
    """Of a span that no fitting level keeps: the finest that is there, the oldest part by the coarsest."""
    if start_s >= end_s or not coarser:
        return
    resolution, *others = coarser
    level = levels[resolution]
    first = max(-(-start_s // resolution), level.kept_from)
    last = min(-(-end_s // resolution), level.built_to)
    if first < last:
        yield from _what_is_left(levels, start_s, min(first * resolution, end_s), others)
        yield Part(resolution, first, last)
    else:
        yield from _what_is_left(levels, start_s, end_s, others)
