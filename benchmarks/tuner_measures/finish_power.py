"""What a study's finish says: of equal arms, of a true gain, and at the end of whole studies, in how many runs.

Rivals take the same log ratios: Student's interval on three pairs; on four and then sixteen, each at half the error (as
studies did before); and an e-process, the mixture of Student's likelihood ratios over a normal effect of scale 1
(Wang and Ramdas 2024), whose level needs no last look.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.tuner_measures.known_surfaces import Surface
from benchmarks.tuner_measures.measured_surface import EMBEDDED, LIMITS, OBJECTIVE, read
from benchmarks.tuner_measures.search_rivals import make_search
from controlplane.contract.bodies.studies import Objective, StudyVerdict
from controlplane.contract.knobs import canonical_json
from tuner.search.objective import Assessment, constraint_value
from tuner.search.search import Outcome, Search
from tuner.search.surrogate import Array
from tuner.study.heats import HEATS, standing, still_running
from tuner.study.paired_test import ALPHA, fenced, is_hopeless, look
from tuner.study.remeasure import (
    DEFAULT,
    INTERLEAVED,
    USUAL_PAIRS,
    WINNER,
    Race,
    verdict,
)
from tuner.study.study_run import MARGINAL

Test = Callable[[Sequence[float]], tuple[bool, int]]
"""Of log ratios as they come: whether the candidate is called better, and after how many pairs that was settled."""
Draw = Callable[[np.random.Generator, tuple[int, int]], Array]
"""Log ratios of equal arms: repeats x pairs."""
GAINS = (0.0, 0.05, 0.10, 0.15, 0.30, 0.50)


def sequential(ratios: Sequence[float]) -> tuple[bool, int]:
    for pairs in range(3, USUAL_PAIRS + 1):
        found = look(ratios[:pairs], USUAL_PAIRS)
        if found.decided or is_hopeless(ratios[:pairs]):
            return found.low > 0, pairs
    return False, USUAL_PAIRS


def e_process(ratios: Sequence[float]) -> tuple[bool, int]:
    for pairs in range(2, USUAL_PAIRS + 1):
        values = np.array(ratios[:pairs])
        t = float(values.mean() / (values.std(ddof=1) / math.sqrt(pairs)))
        free = pairs - 1
        ratio = (1 + t * t / free) / (1 + t * t / (free * (1 + pairs)))
        # One-sided: the half of the mixture on the side of a gain.
        value = ratio ** (pairs / 2) / math.sqrt(1 + pairs) * 2 * float(stats.norm.cdf(-t))
        if value >= 1 / ALPHA:
            return True, pairs
    return False, USUAL_PAIRS


def student(pairs: Sequence[int]) -> Test:
    def test(ratios: Sequence[float]) -> tuple[bool, int]:
        for count in pairs:
            values = np.array(ratios[:count])
            bound = stats.t.ppf(1 - 0.025 / len(pairs), count - 1) * values.std(ddof=1) / math.sqrt(count)
            if abs(values.mean()) > bound:
                return bool(values.mean() < 0), count
        return False, pairs[-1]

    return test


TESTS: dict[str, Test] = {
    "paired sequential test, 12 pairs": sequential,
    "e-process, 12 pairs": e_process,
    "Student, 3 pairs": student([3]),
    "Student, 4 then 16 pairs": student([4, 16]),
}


def normal(noise: float) -> Draw:
    """Log ratios of pairs of runs whose noise is normal."""
    return lambda random, shape: noise * math.sqrt(2) * random.standard_normal(shape)


def replayed(figure: str) -> Draw:
    """Of pairs of runs that each had the noise of one that was measured on the real engine."""
    runs = read(EMBEDDED).noise[:, (OBJECTIVE, *LIMITS).index(figure)]
    return lambda random, shape: np.diff(random.choice(runs, (2, *shape)), axis=0)[0]


def stalling(random: np.random.Generator, shape: tuple[int, int]) -> Array:
    """Of runs with 6 % of noise of which one in twenty takes two to eight times as long."""
    arms = 0.06 * random.standard_normal((2, *shape))
    arms += (random.random((2, *shape)) < 0.05) * random.uniform(math.log(2), math.log(8), (2, *shape))
    found: Array = arms[1] - arms[0]
    return found


NOISES: dict[str, Draw] = {
    "normal, 10 % a run": normal(0.10),
    "normal, 5 % a run": normal(0.05),
    "as measured, e2e p50": replayed("e2e:0.5"),
    "as measured, ttft p95": replayed("ttft:0.95"),
    "6 % a run, one in twenty stalls": stalling,
}


def power(repeats: int, noise: str, seed: int) -> None:
    """Called better among `repeats`, by true gain; in brackets the mean number of pairs."""
    print(f"\nnoise {noise}, {repeats} repeats, seed {seed}: called better (mean pairs)\n")
    print(f"| | {' | '.join(f'{gain:.0%} better' for gain in GAINS)} |")
    print("|---" * (len(GAINS) + 1) + "|")
    for name, test in TESTS.items():
        random = np.random.default_rng(seed)
        cells = []
        for gain in GAINS:
            drawn = math.log(1 - gain) + NOISES[noise](random, (repeats, 16))
            ends = [test(ratios) for ratios in drawn.tolist()]
            cells.append(f"{np.mean([better for better, _ in ends]):.1%} ({np.mean([pairs for _, pairs in ends]):.1f})")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


@dataclass(frozen=True)
class Ended:
    """A study's finish. `winner`: of the last race, None where nothing was raced; `runs`: of the finish alone."""

    verdict: StudyVerdict
    winner: Outcome | None
    runs: int

    @property
    def better(self) -> dict[str, Any] | None:
        """The winner's knobs where it is better than the default."""
        return self.winner.knobs if self.winner is not None and self.verdict is StudyVerdict.BETTER else None


def finish(
    search: Search,
    measure: Callable[[Mapping[str, Any]], Assessment],
    limits: Sequence[str],
    also: Sequence[Objective] = (),
    worse_by: float = 0.0,
    finalists: int = 3,
) -> Ended:
    """Heats and pairs, as a study has them, of what its search has found; `measure`: one fresh run."""
    chosen, best = search.finalists(finalists), search.best()
    if not chosen and best is not None and best.knobs != search.default:
        chosen = [best]
    chosen = [one for one in chosen if one.assessment.worst <= MARGINAL]
    if not chosen:
        return Ended(StudyVerdict.NOT_BETTER, None, 0)
    heats: list[list[Assessment]] = [[] for _ in chosen]
    running, runs = list(range(len(chosen))), 0
    for _ in range(HEATS if len(chosen) > 1 else 0):
        for place in running:
            heats[place].append(measure(chosen[place].knobs))
            runs += 1
        several = [chosen[place] for place in running]
        running = [running[place] for place in still_running(several, [heats[place] for place in running])]
    for place in standing(chosen, heats) if len(chosen) > 1 else running:
        race = Race(USUAL_PAIRS, INTERLEAVED, limits, also, worse_by)
        while not race.settled:
            for arm, knobs in ((DEFAULT, search.default), (WINNER, chosen[place].knobs)):
                measured = measure(knobs)
                runs += 1
                if measured.objective_s is None:
                    return Ended(StudyVerdict.NOT_BETTER, chosen[place], runs)
                race.add(arm, measured)
        ended = Ended(verdict(race.found, _excess(race), race.unsure, also_held=race.also_held), chosen[place], runs)
        if ended.better is not None or race.found.low <= 0:
            return ended
    return ended


def study(surface: Surface, seed: int, trials: int) -> tuple[StudyVerdict, dict[str, Any], int]:
    """A whole study: the verdict, the winner (the default where it is not better), and the runs it took."""
    search, noise = make_search(surface, seed, trials), np.random.default_rng(seed)
    while (candidate := search.ask()) is not None:
        search.tell(candidate, surface.measure(candidate.knobs, noise))
    ended = finish(search, lambda knobs: surface.measure(knobs, noise, fresh=True), surface.limits)
    winner = surface.default if ended.better is None else ended.better
    return ended.verdict, winner, len(search.outcomes) + ended.runs


def _excess(race: Race) -> dict[str, float]:
    """Of each limit over all runs of the winner. A study pools their requests, of which a run far off has a few more
    that are slow: what is told of a surface has no requests, and its typical run stands for them."""
    return {
        name: math.expm1(fmean(fenced([constraint_value(one[name]) for one in race.excess]))) for name in race.limits
    }


def studies(name: str, make: Callable[[int], Surface], seeds: Sequence[int], trials: int = 12) -> None:
    """Verdicts and regret of whole studies."""
    results = []
    for seed in seeds:
        surface = make(seed)
        decided, winner, runs = study(surface, seed, trials)
        truth = surface.fresh[canonical_json(winner)]
        broken = decided is StudyVerdict.BETTER and not truth.feasible
        results.append((decided is StudyVerdict.BETTER, broken, surface.regret(dict(winner), fresh=True), runs))
    better, broken_, regrets, runs_ = zip(*results, strict=True)
    low, high = np.quantile(regrets, (0.5, 0.9))
    print(
        f"| {name} | {sum(better)} of {len(seeds)} | {sum(broken_)} | {100 * low:.0f} / {100 * high:.0f} % | "
        f"{np.mean(runs_):.0f} |",
        flush=True,
    )
