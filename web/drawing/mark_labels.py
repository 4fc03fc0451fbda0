"""Where the words of marks stand over a plot: in lanes at its top, the ones that explain most first.

Pure. Guarantees: no two labels of one width of the plot lie on each other, and none reaches beyond its ends, as far as
letters are as wide as reckoned; of marks that contend for room an alert or a rollout keeps its words, and the newer
one of a kind. Marks are told whole in a drawing's table, whatever their labels do.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

LETTER_PX = 5.8
"""Of a system font at 10 px, a little more than the mean."""
GAP_PX = 8.0
NARROW_PX, WIDE_PX = 270.0, 900.0
"""Plots: of a phone's or a small card, and of a card as wide as the page."""
LANES = 3
FIRST = ("alert", "rollout", "engine", "event", "revision", "resolved", "node")
"""Kinds of marks, by what explains a change of latency the most."""


@dataclass(frozen=True)
class Label:
    """`lane`: from the top, 0 first. `before`: the words end at the mark, since there is no room behind it. `wide`:
    there is room in a wide plot only."""

    lane: int
    before: bool = False
    wide: bool = False


@dataclass(frozen=True)
class _Taken:
    lane: int
    begin: float
    end: float


def labels_of(marks: Sequence[tuple[float, str, str]], wide_px: float = NARROW_PX) -> list[Label | None]:
    """For each mark (share of the width, kind, words), in their order; None where there is no room.

    `wide_px`: the plot's width on a desktop. What finds room on a phone does on a desktop, too.
    """
    found: list[Label | None] = [None] * len(marks)
    for width_px in (NARROW_PX, wide_px) if wide_px > NARROW_PX else (NARROW_PX,):
        taken = [_taken(label.lane, label.before, marks[place], width_px) for place, label in enumerate(found) if label]
        for place in _by_weight(marks, (place for place, label in enumerate(found) if label is None)):
            fitting = _fitting(marks[place], taken, width_px)
            if fitting is not None:
                found[place] = Label(fitting.lane, fitting.before, width_px > NARROW_PX)
                taken.append(_taken(fitting.lane, fitting.before, marks[place], width_px))
    return found


def _by_weight(marks: Sequence[tuple[float, str, str]], places: Iterable[int]) -> list[int]:
    def weight(place: int) -> tuple[int, float]:
        share, kind, _ = marks[place]
        return (FIRST.index(kind) if kind in FIRST else len(FIRST), -share)

    return sorted(places, key=weight)


def _fitting(mark: tuple[float, str, str], taken: Sequence[_Taken], width_px: float) -> Label | None:
    for lane in range(LANES):
        for before in (False, True):
            wanted = _taken(lane, before, mark, width_px)
            inside = wanted.begin >= 0 and wanted.end <= 1 + GAP_PX / width_px
            free = all(one.lane != lane or one.end <= wanted.begin or wanted.end <= one.begin for one in taken)
            if inside and free:
                return Label(lane, before)
    return None


def _taken(lane: int, before: bool, mark: tuple[float, str, str], width_px: float) -> _Taken:
    share, _, words = mark
    length = (LETTER_PX * len(words) + GAP_PX) / width_px
    return _Taken(lane, share - length, share) if before else _Taken(lane, share, share + length)
