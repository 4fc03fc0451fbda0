"""How good a study's search and finish are, on surfaces with known truth, beside rivals at equal time.

python -m benchmarks.tuner_measures                       # all, 30 seeds
python -m benchmarks.tuner_measures --only search --surfaces narrow --players product,random --seeds 5
"""

import argparse
import platform

import numpy as np
import optuna

from benchmarks.tuner_measures import search_regret
from benchmarks.tuner_measures.known_surfaces import broken, engine, narrow
from benchmarks.tuner_measures.search_rivals import PLAYERS

SURFACES = {"engine": engine, "narrow": narrow, "broken": broken}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default="search", help="of search")
    options.add_argument("--surfaces", default=",".join(SURFACES))
    options.add_argument("--players", default=",".join(PLAYERS))
    options.add_argument("--seeds", type=int, default=30)
    options.add_argument("--trials", type=int, default=20)
    chosen = options.parse_args()
    print(f"python {platform.python_version()}, numpy {np.__version__}, optuna {optuna.__version__}, seeds from 0")
    if "search" in chosen.only:
        for name in chosen.surfaces.split(","):
            search_regret.measure(SURFACES[name], chosen.seeds, chosen.players.split(","), chosen.trials)


if __name__ == "__main__":
    main()
