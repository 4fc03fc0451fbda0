"""How long each of several ways to compute a layer takes, at several numbers of rows.

Other processes disturb a measurement, and only ever make it longer: so the ways take turns, and the shortest time of
each counts. Before few rows the caches are emptied, for a large layer: a decode step comes to it after all the others.
"""

from collections.abc import Callable, Mapping
from time import perf_counter

import torch
from torch import Tensor

ROWS = (1, 4, 16, 64, 192)
"""Standing for one row, a few, a batch, a large batch or draft, and a prompt's piece."""
ROUNDS = 9
MOST_WEIGHTS = 2**20
"""Of a layer with more, the first outputs are timed: their number changes no proportion."""
_FEW_ROWS = 16
_COLD_BYTES, _EVICTING_BYTES = 2**20, 48 * 2**20

Way = Callable[[Tensor], Tensor]


@torch.inference_mode()
def seconds_of(
    ways: Mapping[str, Way],
    weight_bytes: int,
    inputs: int,
    dtype: torch.dtype,
    deadline: float,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, dict[int, float]]:
    """Way to number of rows to seconds. weight_bytes: of the whole layer, before any of it was left out.

    One round is always finished; others begin while the clock is before the deadline.
    """
    evicting = torch.zeros(_EVICTING_BYTES // 4) if weight_bytes >= _COLD_BYTES else None
    samples = {count: torch.randn((count, inputs)).to(dtype) for count in ROWS}
    found: dict[str, dict[int, float]] = {name: {} for name in ways}
    for way in ways.values():
        for rows in samples.values():
            way(rows)  # Libraries prepare each number of rows once.
    for round_ in range(ROUNDS):
        for count, rows in samples.items():
            for name, way in ways.items():
                if evicting is not None and count <= _FEW_ROWS:
                    evicting.sum()
                began = clock()
                way(rows)
                taken = clock() - began
                found[name][count] = min(taken, found[name].get(count, taken))
            if round_ and clock() > deadline:
                return found
    return found
