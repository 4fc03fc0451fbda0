"""Regression detection: how often it cries wolf, and how soon it sees a real slowdown.

    python -m benchmarks.detection                                    # all of it, small: an hour or so of a core
    python -m benchmarks.detection --only nulls --worlds busy --weeks 8 --methods "product, prefill"
    python -m benchmarks.detection --only delays,nulls --without tail # the worth of a part

Worlds are real arrivals through a queue a node, on machines that drift (`detection_measures/worlds.py`); in a null
world nothing is wrong, and each alarm there is false. All methods watch the same worlds. A rival has one threshold,
found on easy worlds of other seeds so that it is as quiet there as the product promises to be (`delays.tune`).
What comes to light is printed as it does. A model is not production: read the figures as its answers.
"""

import argparse
import platform
import time

import numpy as np

from benchmarks.detection_measures import delays, false_alarms, streams_cost, trade_offs
from benchmarks.detection_measures.arrivals import lap
from benchmarks.detection_measures.methods import METHODS, PARTS
from benchmarks.detection_measures.rivals import RIVALS
from benchmarks.detection_measures.scenes import FAULTS, OF_DRAFTS, RATES, SHAPES, SMALL
from controlplane.contract.metrics import WINDOW_S

MEASURES = ("nulls", "delays", "small", "trade_offs", "surges", "mixes", "cost")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", default=",".join(MEASURES), help="of " + ", ".join(MEASURES))
    options.add_argument("--methods", default="product, prefill;" + ";".join(RIVALS), help="with ; between")
    options.add_argument("--worlds", default=",".join(SHAPES), help="nulls: of " + ", ".join(SHAPES))
    options.add_argument(
        "--faults", default=";".join(FAULTS), help="delays: as named in the table, or of drafts, with ; between"
    )
    options.add_argument(
        "--rates", default=",".join(f"{rate:g}" for rate in RATES), help="requests a second; nulls: of 5 and 20"
    )
    options.add_argument("--weeks", type=float, default=1.0, help="of each null world")
    options.add_argument("--tuning-weeks", type=float, default=4.0, help="of each easy world that rivals are tuned on")
    options.add_argument("--trials", type=int, default=9, help="of each fault and rate")
    options.add_argument("--rollouts", type=int, default=50, help="and half as many surges and mixes")
    options.add_argument("--past", type=float, default=0.0, help="delays: hours watched before, beyond the baseline")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--without", default="", help="parts left out of the product: " + ", ".join(PARTS))
    chosen = options.parse_args()
    lists = {
        "only": (chosen.only.split(","), MEASURES),
        "methods": (chosen.methods.split(";"), [*METHODS, *RIVALS]),
        "worlds": (chosen.worlds.split(","), SHAPES),
        "faults": (chosen.faults.split(";"), {**FAULTS, **OF_DRAFTS}),
        "without": ([part for part in chosen.without.split(",") if part], PARTS),
    }
    for name, (wanted, known) in lists.items():
        if unknown := [one for one in wanted if one not in known]:
            options.error(f"--{name}: there is no {unknown[0]!r}; there are {'; '.join(known)}")
    parts, methods, worlds, faults, without = (wanted for wanted, _ in lists.values())
    rates, rivals = [float(rate) for rate in chosen.rates.split(",")], [name for name in methods if name in RIVALS]
    source, seed, past_s = lap(), chosen.seed, 3600.0 * chosen.past
    print(
        f"seed {seed}; arrivals: {source.source}; ticks of {WINDOW_S:g} s" + (f"; without {without}" if without else "")
    )
    print(f"python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}")
    began = time.monotonic()
    is_compared = bool({"nulls", "delays"} & set(parts))
    thresholds = delays.tune(source, rivals if is_compared else [], rates, chosen.tuning_weeks, seed)
    if "nulls" in parts:
        false_alarms.measure(source, methods, worlds, rates, chosen.weeks, seed, thresholds, without)
    if "delays" in parts:
        told = {name: {**FAULTS, **OF_DRAFTS}[name] for name in faults}
        delays.measure(source, methods, told, rates, chosen.trials, seed, thresholds, without, past_s)
    if "small" in parts:
        delays.measure(source, methods, SMALL, rates, chosen.trials, seed, thresholds, without, past_s)
    if "trade_offs" in parts:
        trade_offs.promotions(source, chosen.rollouts, seed)
    if "surges" in parts:
        trade_offs.surges(source, max(1, chosen.rollouts // 2), seed)
    if "mixes" in parts:
        trade_offs.mixes(source, max(1, chosen.rollouts // 2), seed)
    if "cost" in parts:
        streams_cost.measure(source, seed)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
