"""How far from the best feasible configuration a search's choice is, by trials and beside rivals."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np

from benchmarks.tuner_measures.known_surfaces import Surface
from benchmarks.tuner_measures.search_rivals import PLAYERS, Player
from controlplane.contract.knobs import canonical_json

AFTER = (8, 12, 20)
NEAR = 0.05


def measure(make: Callable[[int], Surface], seeds: int, names: Sequence[str], most: int = max(AFTER)) -> None:
    surfaces = [make(seed) for seed in range(seeds)]
    print(f"\n{surfaces[0].describe()}; {seeds} seeds, one run a trial\n")
    after = [count for count in AFTER if count <= most]
    told = " | ".join(f"{count} trials" for count in after)
    print(f"| regret, median / 90th (breaks a limit on fresh traffic) | {told} | trials to 5 % (reached) | s a study |")
    print("|---" * (len(after) + 3) + "|")
    for name in names:
        began = time.process_time()
        paths = [path_of(PLAYERS[name], surface, seed, most) for seed, surface in enumerate(surfaces)]
        spent_s = (time.process_time() - began) / seeds
        cells = row(paths, after)
        near = [next((place + 1 for place, (regret, _) in enumerate(path) if regret <= NEAR), None) for path in paths]
        reached = sorted(count for count in near if count is not None)
        median = f"{reached[seeds // 2]}" if len(reached) > seeds // 2 else f"over {most}"
        print(f"| {name} | {' | '.join(cells)} | {median} ({len(reached)} of {seeds}) | {spent_s:.2f} |", flush=True)


Path = Sequence[tuple[float, bool]]
"""(regret, breaks a limit) of the choice after each trial."""


def path_of(player: Player, surface: Surface, seed: int, most: int) -> Path:
    found = []
    for chosen in islice(player(surface, seed), most):
        truth = surface.fresh[canonical_json(surface.default if chosen is None else chosen)]
        found.append((surface.regret(chosen, fresh=True), not truth.feasible and chosen != surface.default))
    return found


def row(paths: Sequence[Path], after: Sequence[int]) -> list[str]:
    """A cell for each of so many trials."""
    return [_cell([path[min(count, len(path)) - 1] for path in paths]) for count in after]


def _cell(results: Sequence[tuple[float, bool]]) -> str:
    regrets = [regret for regret, _ in results]
    broken = sum(breaks for _, breaks in results)
    low, high = np.quantile(regrets, (0.5, 0.9))
    return f"{100 * low:.0f} / {100 * high:.0f} %" + (f" ({broken})" if broken else "")
