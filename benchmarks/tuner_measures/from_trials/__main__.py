"""How well a twin that is fitted to a study's first runs forecasts the rest, and what a search makes of it.

python -m benchmarks.tuner_measures.from_trials --runs /tmp/first_runs.pickle --first-seed 700

First how well the surface repeats itself, which bounds what any forecast can show: `read` takes the mean of two runs of
each configuration for the truth. --halves: searches on one of the two runs as the truth, told the other in place of
forecasts: what a forecast is worth that is as good as measuring every configuration once. --runs: of `first_runs`.
"""

import argparse
import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.tuner_measures.from_forecasts.surface_forecasts import NAMES, defaults
from benchmarks.tuner_measures.from_forecasts.twin_first import with_known_default
from benchmarks.tuner_measures.from_trials.first_runs import DEFAULTS
from benchmarks.tuner_measures.from_trials.joint_fit import fitted
from benchmarks.tuner_measures.from_trials.told_search import Teller, Told, dealt_anew, told_by
from benchmarks.tuner_measures.known_surfaces import Surface, Truth
from benchmarks.tuner_measures.measured_surface import EMBEDDED, full_weights, is_full, measured, read
from benchmarks.tuner_measures.search_regret import path_of, row
from benchmarks.tuner_measures.search_rivals import Player, product
from benchmarks.twin_measures.recorded_engine import Served
from controlplane.contract.knobs import canonical_json
from tuner.search.first_points import first_points
from tuner.search.search import Outcome
from tuner.twin.simulated_engine import EngineShape

SURFACES: dict[str, Callable[[int], Surface]] = {"full": full_weights, "measured": measured}
TRIALS = (4, 6, 8, 12)
EVERY = 3
"""Of the configurations, in a figure's agreement, one in so many is forecast."""

Runs = Mapping[str, Sequence[Served]]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--surfaces", default=",".join(SURFACES))
    options.add_argument("--runs", type=Path)
    options.add_argument("--halves", action="store_true")
    options.add_argument("--seeds", type=int, default=30)
    options.add_argument("--first-seed", type=int, default=700)
    chosen = options.parse_args()
    names, seeds = chosen.surfaces.split(","), range(chosen.first_seed, chosen.first_seed + chosen.seeds)
    for name in names:
        print(_repeatability(name))
    if chosen.halves:
        for name in names:
            _play(name, {"product": product} | _players(_other_run), seeds, _one_run)
    if chosen.runs is not None:
        shape, runs = pickle.loads(chosen.runs.read_bytes())
        print(_agreement(shape, runs))
        told = _calibrated(shape, runs)
        players = {"product": product} | _players(told)
        players |= {f"{player}, dealt anew": play for player, play in _players(dealt_anew(told)).items()}
        players["the truth as prior mean"] = told_by(_truth, prior=True)
        for name in names:
            _play(name, players, seeds, lambda surface, seed: surface)


def _players(teller: Teller) -> dict[str, Player]:
    return {
        "the best by forecasts fifth": told_by(teller, points=1),
        "forecasts as prior mean": told_by(teller, prior=True),
        "what is forecast to break a limit left out": told_by(teller, leaves_out=True),
    }


def _play(
    name: str, players: Mapping[str, Player], seeds: Sequence[int], seen: Callable[[Surface, int], Surface]
) -> None:
    """A row for each, of regret on what is `seen` of the surface."""
    print(f"\n| `{name}`, seeds from {seeds[0]} | " + " | ".join(f"{count} trials" for count in TRIALS) + " | means |")
    print("|---" * (2 + len(TRIALS)) + "|")
    for player, play in players.items():
        paths = []
        for seed in seeds:
            surface = with_known_default(seen(SURFACES[name](seed), seed), seed)
            paths.append(path_of(play, surface, seed, max(TRIALS)))
        means = [100 * float(np.mean([path[min(count, len(path)) - 1][0] for path in paths])) for count in TRIALS]
        print(
            f"| {player} | {' | '.join(row(paths, TRIALS))} | {', '.join(f'{one:.1f}' for one in means)} |", flush=True
        )


# -- what is told ------------------------------------------------------------------------------------------------


def _calibrated(shape: EngineShape, runs: Runs) -> Teller:
    known: dict[tuple[int, tuple[str, ...]], Told] = {}

    def tell(surface: Surface, seed: int, outcomes: Sequence[Outcome]) -> Told:
        keys, place = tuple(canonical_json(outcome.knobs) for outcome in outcomes), seed % 2
        at = (seed, (surface.name, *keys))
        if at not in known:
            measured_s = {key: one.assessment.objective_s for key, one in zip(keys, outcomes, strict=True)}
            medians = {key: value for key, value in measured_s.items() if value is not None}
            twin = fitted(shape, runs, keys, place).paced(medians, place)
            known[at] = {key: np.log(twin.figures(key, place)).tolist() for key in surface.seen}
        return known[at]

    return tell


def _truth(surface: Surface, seed: int, outcomes: Sequence[Outcome]) -> Told:
    return {key: _logs(truth) for key, truth in surface.seen.items()}


def _logs(truth: Truth) -> list[float]:
    found: list[float] = np.log([truth.objective, *(truth.limits[name] for name in NAMES[1:])]).tolist()
    return found


def _one_run(surface: Surface, seed: int) -> Surface:
    """Where one of the two runs is the truth: by seeds the first or the second."""
    table = _by_run(surface, seed, seed // 2 % 2)
    return replace(surface, seen=table, fresh=table)


def _other_run(surface: Surface, seed: int, outcomes: Sequence[Outcome]) -> Told:
    table = _by_run(SURFACES["full" if all(map(is_full, surface.seen)) else "measured"](seed), seed, 1 - seed // 2 % 2)
    return {key: _logs(truth) for key, truth in table.items()}


def _by_run(surface: Surface, seed: int, run: int) -> dict[str, Truth]:
    found = {}
    for key, truth in surface.seen.items():
        mean, own = read(EMBEDDED).slices[seed % 2][key], _two_runs()[key][seed % 2][run]
        ratio = {name: own[name] / mean[name] for name in NAMES}
        limits = {name: value * ratio[name] for name, value in truth.limits.items()}
        found[key] = Truth(truth.objective * ratio[NAMES[0]], limits)
    return found


@cache
def _two_runs() -> dict[str, list[list[dict[str, float]]]]:
    found: dict[str, list[list[dict[str, float]]]] = json.loads(EMBEDDED.read_text(encoding="utf-8"))["runs"]
    return found


# -- how well it agrees ------------------------------------------------------------------------------------------


def _repeatability(name: str) -> str:
    keys = [key for key in _two_runs() if name != "full" or is_full(key)]
    lines = [
        f"\n`{name}`: one run beside the other of {len(keys)} configurations, and a perfect forecast beside the mean",
        "\n| | slice | spread | noise of a run | correlation, tau | of a perfect forecast |\n|---|---|---|---|---|---|",
    ]
    for figure in NAMES:
        for place in (0, 1):
            one, other = (np.log([_two_runs()[key][place][run][figure] for key in keys]) for run in (0, 1))
            alike, tau = float(np.corrcoef(one, other)[0, 1]), _tau(one, other)
            best = (2.0 * alike / (1.0 + alike)) ** 0.5
            lines.append(
                f"| {figure} | {place} | {np.std((one + other) / 2):.2f} | {np.std(one - other) / 2**0.5:.2f} | "
                f"{alike:.2f}, {tau:.2f} | {best:.2f}, {2 / np.pi * np.arcsin(best):.2f} |"
            )
    return "\n".join(lines)


def _agreement(shape: EngineShape, runs: Runs) -> str:
    """Of forecasts by the first one, two and four runs; the middle of the defaults."""
    lines = [
        "\n| full weights, fitted to | "
        + " | ".join(f"{name}, slice {place}" for name in NAMES for place in (0, 1))
        + " |",
        "|---" * 7 + "|",
    ]
    for count in (1, 2, 4):
        cells: dict[tuple[str, int], list[tuple[float, float]]] = {}
        for knobs in defaults(DEFAULTS):
            space = full_weights().space
            firsts = dict.fromkeys(map(canonical_json, [knobs, *first_points(space, knobs)]))
            keys = list(firsts)[:count]
            for place, truth in enumerate(read(EMBEDDED).slices):
                twin = fitted(shape, runs, keys, place).paced({key: truth[key][NAMES[0]] for key in keys}, place)
                asked = [key for key in truth if is_full(key) and key not in firsts][::EVERY]
                told = np.log([twin.figures(key, place) for key in asked])
                for column, name in enumerate(NAMES):
                    real = np.log([truth[key][name] for key in asked])
                    off = float(np.median(np.abs(told[:, column] - real)))
                    cells.setdefault((name, place), []).append((_tau(told[:, column], real), off))
        found = [np.median(cells[name, place], axis=0) for name in NAMES for place in (0, 1)]
        lines.append(f"| {count} runs | " + " | ".join(f"{tau:.2f}, {np.expm1(off):.0%}" for tau, off in found) + " |")
    return "\n".join(lines)


def _tau(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    return float(stats.kendalltau(one, other).statistic)


if __name__ == "__main__":
    main()
