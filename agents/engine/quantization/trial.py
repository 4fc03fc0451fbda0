"""How long each of several ways to compute a layer takes, at several numbers of rows.

Other processes disturb a measurement, and only ever make it longer: so the ways take turns, and the shortest time of
each counts, of those calls in which no thread of ours had to wait for a processor. Where every call of some way was
disturbed the times say nothing, and that is said. Before few rows the caches are emptied, for a large layer: a decode
step comes to it after all the others.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from agents.host.run_queue import run_queue

ROWS = (1, 4, 16, 64, 192)
"""Standing for one row, a few, a batch, a large batch or draft, and a prompt's piece."""
ROUNDS = 9
MOST_WEIGHTS = 2**20
"""Of a layer with more, the first outputs are timed: their number changes no proportion."""
MOST_WAITING = 0.1
"""Share of a call's time that threads may have waited, all together, before the call counts as disturbed."""
_FEW_ROWS = 16
_COLD_BYTES, _EVICTING_BYTES = 2**20, 48 * 2**20

Way = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Times:
    """seconds: way to number of rows to the shortest time; quiet: whether each is that of an undisturbed call."""

    seconds: dict[str, dict[int, float]]
    quiet: bool


def times_of(ways: Mapping[str, Way], weight_bytes: int, inputs: int, dtype: torch.dtype, deadline: float) -> Times:
    """As `times_by`, by this machine's clock and run queue."""
    samples = {count: torch.randn((count, inputs)).to(dtype) for count in ROWS}
    with torch.inference_mode():
        for way in ways.values():
            for rows in samples.values():
                way(rows)  # Libraries prepare each number of rows, and threads start, once.
        with run_queue() as queue:
            return times_by(ways, weight_bytes, samples, deadline, perf_counter, queue.waited_s)


def times_by(
    ways: Mapping[str, Way],
    weight_bytes: int,
    samples: Mapping[int, Tensor],
    deadline: float,
    clock: Callable[[], float],
    waited_s: Callable[[], float],
) -> Times:
    """weight_bytes: of the whole layer, before any of it was left out. waited_s: how long threads have waited so far.

    One round is always finished; others begin while the clock is before the deadline.
    """
    evicting = torch.zeros(_EVICTING_BYTES // 4) if weight_bytes >= _COLD_BYTES else None
    quiet: dict[str, dict[int, float]] = {name: {} for name in ways}
    disturbed: dict[str, dict[int, float]] = {name: {} for name in ways}
    for round_ in range(ROUNDS):
        for count, rows in samples.items():
            for name, way in ways.items():
                if evicting is not None and count <= _FEW_ROWS:
                    evicting.sum()
                waited, began = waited_s(), clock()
                way(rows)
                taken = clock() - began
                found = disturbed if waited_s() - waited > MOST_WAITING * taken else quiet
                found[name][count] = min(taken, found[name].get(count, taken))
            if round_ and clock() > deadline:
                return _times(quiet, disturbed)
    return _times(quiet, disturbed)


def _times(quiet: dict[str, dict[int, float]], disturbed: dict[str, dict[int, float]]) -> Times:
    both = {name: disturbed[name] | own for name, own in quiet.items()}
    return Times(both, all(both[name].keys() == own.keys() for name, own in quiet.items()))
