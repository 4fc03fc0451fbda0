"""How good a study's search and finish are, on surfaces with known truth and one that was measured, beside rivals.

python -m benchmarks.tuner_measures                       # all, 30 seeds
python -m benchmarks.tuner_measures --only search --surfaces narrow --players product,random --seeds 5
"""

import argparse
import platform
from collections.abc import Callable

import numpy as np
import optuna

from benchmarks.tuner_measures import (
    finish_power,
    front_finish,
    front_rivals,
    growing_runs,
    noisy_oracle,
    search_regret,
    whole_studies,
)
from benchmarks.tuner_measures.known_surfaces import Surface, broken, flat, narrow
from benchmarks.tuner_measures.measured_surface import full_weights, measured, vllm, vllm_40
from benchmarks.tuner_measures.search_rivals import PLAYERS

SURFACES: dict[str, Callable[[int], Surface]] = {
    "narrow": narrow,
    "broken": broken,
    "measured": measured,
    "full": full_weights,
    "vllm": vllm,
    "vllm_40": vllm_40,
}
FORMULA, REAL = ("itl:0.99", "ttft:0.95"), ("tpot:0.95", "ttft:0.95")
BESIDE = {name: FORMULA if name in ("narrow", "broken") else REAL for name in SURFACES}
"""The limits of a surface that are its second and third objective, where several are sought at once."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--only",
        default="search,power,studies",
        help="of search, pareto, fronts, power, errors, studies, oracle, growing",
    )
    options.add_argument("--surfaces", default=",".join(SURFACES))
    options.add_argument("--players", default=",".join({**PLAYERS, **front_rivals.PLAYERS}))
    options.add_argument("--seeds", type=int, default=30)
    options.add_argument("--first-seed", type=int, default=0, help="of studies, fronts and pareto")
    options.add_argument("--trials", type=int, default=20)
    options.add_argument("--objectives", type=int, choices=(2, 3), default=2, help="of pareto, end-to-end time counted")
    options.add_argument("--finishes", type=int, default=20_000, help="of errors")
    chosen = options.parse_args()
    seeds = range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    versions = f"python {platform.python_version()}, numpy {np.__version__}, optuna {optuna.__version__}"
    print(f"{versions}, seeds from {chosen.first_seed}")
    if "search" in chosen.only:
        for name in chosen.surfaces.split(","):
            names = [name for name in PLAYERS if name in chosen.players.split(",")]
            search_regret.measure(SURFACES[name], chosen.seeds, names, chosen.trials)
    if "pareto" in chosen.only:
        names = [name for name in front_rivals.PLAYERS if name in chosen.players.split(",")]
        for name in chosen.surfaces.split(","):
            others = BESIDE[name][: chosen.objectives - 1]
            front_rivals.measure(SURFACES[name], others, seeds, names, chosen.trials)
    if "fronts" in chosen.only:
        print(f"\nwhole studies of two objectives, 12 trials, heats and pairs on fresh traffic\n\n{front_finish.HEAD}")
        for name in chosen.surfaces.split(","):
            front_finish.measure(name, SURFACES[name], BESIDE[name][:1], seeds)
    if "oracle" in chosen.only:
        print("\nevery configuration measured so many times, regret of the choice, median / 90th\n")
        print("| surface | runs | the fastest that held | gain times probability |\n|---|---|---|---|")
        for name in chosen.surfaces.split(","):
            for runs in (1, 2, 8):
                noisy_oracle.measure(SURFACES[name], chosen.seeds, runs)
    if "growing" in chosen.only:
        for requests, z in ((50, 2.0), (50, 2.5), (200, 2.5)):
            growing_runs.measure(chosen.seeds, requests, z)
    if "power" in chosen.only:
        for noise in finish_power.NOISES:
            finish_power.power(2000, noise, seed=1)
    if "errors" in chosen.only:
        print(f"\nof equal arms one is called better, among {chosen.finishes} finishes, seed 1 (one standard error)\n")
        print("| noise | finalists | wrongly better | runs |\n|---|---|---|---|")
        for world in whole_studies.WORLDS:
            whole_studies.errors(chosen.finishes, world, seed=1)
    if "studies" in chosen.only:
        print("\nwhole studies of 12 trials, heats and pairs on fresh traffic\n")
        print(
            "| surface | called better | winner breaks a limit | regret, median / 90th | runs |\n|---|---|---|---|---|"
        )
        for name in chosen.surfaces.split(","):
            whole_studies.studies(name, SURFACES[name], seeds)
        whole_studies.studies("flat", lambda _: flat(), range(chosen.first_seed, chosen.first_seed + 2 * chosen.seeds))
        whole_studies.studies("flat, all else 15 % better", lambda _: flat(gain=0.15), seeds)


if __name__ == "__main__":
    main()
