"""The study's search beside one that begins with the twin's points, the same defaults, limits and noise.

python -m benchmarks.tuner_measures.from_forecasts --surfaces full,measured,vllm_40 --first-seed 600
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.tuner_measures.from_forecasts.surface_forecasts import NAMES, kept
from benchmarks.tuner_measures.from_forecasts.twin_first import guided, twin_first, with_known_default
from benchmarks.tuner_measures.known_surfaces import Surface
from benchmarks.tuner_measures.measured_surface import (
    EMBEDDED,
    VLLM,
    VLLM_40,
    full_weights,
    measured,
    read,
    vllm,
    vllm_40,
)
from benchmarks.tuner_measures.search_regret import path_of, row
from benchmarks.tuner_measures.search_rivals import Player, product
from benchmarks.twin_measures.against_engine import kendall

SURFACES: dict[str, tuple[Callable[[int], Surface], Path]] = {
    "full": (full_weights, EMBEDDED),
    "measured": (measured, EMBEDDED),
    "vllm": (vllm, VLLM),
    "vllm_40": (vllm_40, VLLM_40),
}
AFTER = (4, 8, 12)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--surfaces", default=",".join(SURFACES))
    options.add_argument("--seeds", type=int, default=30)
    options.add_argument("--first-seed", type=int, default=0)
    chosen = options.parse_args()
    for name in chosen.surfaces.split(","):
        make, path = SURFACES[name]
        print(_agreement(path))
        print(
            f"\n| `{name}`, seeds from {chosen.first_seed} | " + " | ".join(f"{count} trials" for count in AFTER) + " |"
        )
        print("|---" * (1 + len(AFTER)) + "|")
        for player, play in players(path).items():
            paths = []
            for seed in range(chosen.first_seed, chosen.first_seed + chosen.seeds):
                surface = with_known_default(make(seed), seed, path)
                paths.append(path_of(play, surface, seed, max(AFTER)))
            print(f"| {player} | {' | '.join(row(paths, AFTER))} |", flush=True)


def players(path: Path) -> dict[str, Player]:
    """path: of the measured surface."""
    return {
        "product": product,
        "told the forecasts, as a study of vLLM is": guided(path),
        "told forecasts that were dealt anew": guided(path, shuffled=True),
        "the twin's best first": twin_first(1, path),
        "and the most different of those nearly as good": twin_first(2, path),
        "the best by forecasts that were dealt anew": twin_first(1, path, shuffled=True),
    }


def _agreement(path: Path) -> str:
    """How alike forecasts and what was measured are, over the configurations that were forecast."""
    lines = ["| | " + " | ".join(f"slice {place}: correlation, tau, slope" for place in (0, 1)) + " |", "|---|---|---|"]
    for figure in NAMES:
        cells = []
        for place, truth in enumerate(read(path).slices):
            found = []
            for default, both in kept(path).items():
                told = both[place]
                forecast = np.array([ratios[figure] for ratios in told.values()])
                real = np.log([truth[key][figure] / truth[default][figure] for key in told])
                slope = float(np.polyfit(forecast, real, 1)[0])
                found.append(
                    (float(np.corrcoef(forecast, real)[0, 1]), kendall(forecast.tolist(), real.tolist()), slope)
                )
            lows, middles = np.min(found, axis=0), np.median(found, axis=0)
            cells.append(", ".join(f"{middle:.2f} ({low:.2f})" for middle, low in zip(middles, lows, strict=True)))
        lines.append(f"| {figure} | {' | '.join(cells)} |")
    return f"{len(kept(path))} defaults; the middle of them, in brackets the least\n\n" + "\n".join(lines)


if __name__ == "__main__":
    main()
