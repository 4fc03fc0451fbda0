"""One simulated rollout, judged by the product's judge: canary, then waves. Its rivals see the same requests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.detection_measures.arrivals import Lap
from benchmarks.rollout_measures.canary_pool import CLASSES, Pool, Requests, Scenario, Shape
from benchmarks.rollout_measures.scored_requests import Placed
from controlplane.contract.bodies.rollouts import JudgingPlan, RolloutCreate, Verdict
from controlplane.contract.metrics import PREFILL, QUEUE, TPOT, TTFT, WINDOW_S
from controlplane.evidence.sketch import Sketch
from controlplane.rollouts.judging.compared_line import EPISODE_TICKS, Wanted
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.judge import Judge
from controlplane.rollouts.judging.judging_plan import WAITING, harm_part, plan_of
from controlplane.rollouts.judging.past_comparison import Comparison
from controlplane.rollouts.judging.score_sums import name_of
from controlplane.rollouts.judging.served import Outcomes

HISTORY_TICKS, GAP_TICKS, STEP_TICKS = 2880, 3, 3
SPEC = RolloutCreate(pool="p", revision=2, metrics=[TTFT.short, TPOT.short])


@dataclass
class Told:
    """What became of it. said: "promoted", "worse", "better", "inconclusive"; at_s: since the canary ran it, or since
    the wave did; by: the lines that were worse; wave: 0 the canary."""

    said: str
    at_s: float
    by: list[str] = field(default_factory=list)
    wave: int = 0


def values(found: Requests, metric: str) -> np.ndarray:
    return {
        PREFILL.short: found.prefill,
        TPOT.short: found.tpot,
        TTFT.short: found.prefill + found.queue,
        QUEUE.short: found.queue,
    }[metric]


class Rollout:
    def __init__(self, shape: Shape, scenario: Scenario, source: Lap, seed: tuple[int, ...]) -> None:
        self.pool = Pool(shape, scenario, source, seed)
        self.past = self.pool.requests(HISTORY_TICKS)
        self.fading_ticks = 6.0 if scenario.warm_s or scenario.cold_s else 0.0
        self.seen: list[Requests] = []

    def canary(self, told: int) -> Told:
        """The canary alone, to its end."""
        self.pool.begin(told)
        self.pool.requests(GAP_TICKS)
        plan = plan_of(SPEC)
        assert plan is not None
        judge = self._begin(plan, list(range(told)), GAP_TICKS, harm_part(is_wave=False, waves=1))
        for ticks in self._looks(SPEC.longest_judge_s):
            said = self._step(judge, list(range(told)), self.fading_ticks)
            at_s = ticks * WINDOW_S
            if said is Verdict.WORSE:
                return Told("worse", at_s, _by(judge))
            if at_s >= SPEC.min_judge_s and said is not None:
                return Told("better" if said is Verdict.BETTER else "promoted", at_s)
            needed_s = judge.needed_s()
            hopeful = judge.harmless and needed_s is not None and needed_s <= SPEC.longest_judge_s - at_s
            if at_s >= SPEC.max_judge_s and not hopeful:
                break
        return Told("inconclusive", at_s, [*judge.held_back(), *_undecided(judge)])

    def waves(self, canary: int) -> Told:
        """Canary and waves of as many nodes, each for its time, unless one is worse."""
        nodes = self.pool.shape.nodes
        plan = plan_of(SPEC)
        assert plan is not None
        gap, count = GAP_TICKS, nodes // canary
        for wave in range(count - 1):
            told = (wave + 1) * canary
            self.pool.begin(told)
            self.pool.requests(GAP_TICKS)
            judge = self._begin(plan, list(range(told)), gap, harm_part(is_wave=wave > 0, waves=count))
            for ticks in self._looks(SPEC.wave_judge_s):
                said = self._step(judge, list(range(told)), 0.0)
                if said is Verdict.WORSE:
                    return Told("worse", ticks * WINDOW_S, _by(judge), wave)
                if ticks * WINDOW_S >= SPEC.min_judge_s and said is not None and judge.harmless:
                    break
            gap += ticks + GAP_TICKS
        return Told("promoted", gap * WINDOW_S, wave=count)

    def _looks(self, longest_s: float) -> Iterator[int]:
        """Ticks so far, each time that some more have passed: the sooner, the oftener."""
        ticks = 0
        while ticks * WINDOW_S < longest_s:
            self.step = STEP_TICKS if ticks < 120 else 4 * STEP_TICKS
            ticks += self.step
            yield ticks

    def _begin(self, plan: JudgingPlan, canary: Sequence[int], gap: int, part: float) -> Judge:
        judge = Judge.start(plan, control="concurrent", harm_part=part, fading_ticks=self.fading_ticks)
        mine = np.isin(self.past.node, canary)
        alpha = plan.alpha * part / (len(plan.compared) + len(plan.stages) + 1)
        for one in (*plan.compared, *plan.stages):
            wanted = Wanted(
                levels=one.levels,
                shown=one.shown,
                tolerance=plan.tolerance,
                alpha=alpha,
                fading_ticks=self.fading_ticks,
                gap_ticks=gap,
                episode_ticks=EPISODE_TICKS if one.metric in WAITING else 0,
            )
            placed = Placed.of(self.past, values(self.past, one.metric), HISTORY_TICKS, mine)
            found = Comparison.learn(placed.usual(), placed.scored, wanted)
            assert found is not None
            judge.comparisons[one.metric] = found
            judge.streams.pop(one.metric, None)
        judge.comparisons[TTFT.short].for_harm_alone()
        hit = self.past.stratum % len(CLASSES) == 1
        judge.room.hits_apart, judge.room.tells_hits = float(hit[mine].mean() - hit[~mine].mean()), True
        judge.served.rehearse(_outcomes(self.past, HISTORY_TICKS, mine, np.zeros_like(mine)), concurrent=True)
        return judge

    def _step(self, judge: Judge, canary: Sequence[int], fading: float) -> Verdict | None:
        found = self.pool.requests(self.step)
        self.seen.append(found)
        mine = np.isin(found.node, canary)
        ttft = found.prefill + found.queue
        sheds = self.pool.scenario.sheds
        lost = mine & (ttft > np.quantile(ttft[mine], 1.0 - sheds)) if sheds and mine.any() else np.zeros_like(mine)
        kept, of_kept = (_only(found, ~lost), mine[~lost]) if lost.any() else (found, mine)
        rooms = [judge.room.feed(one) for one in _room(kept, self.step, of_kept)]
        for metric, comparison in judge.comparisons.items():
            counted, of_counted = kept, of_kept
            if metric in WAITING and not all(rooms):
                judged = np.array(rooms)[kept.tick]
                counted, of_counted = _only(kept, judged), of_kept[judged]
            placed = Placed.of(counted, values(counted, metric), self.step, of_counted)
            comparison.take(placed.scored(comparison.yardstick))
        for outcomes in _outcomes(found, self.step, mine, lost):
            judge.served.feed(outcomes, concurrent=True, bound=judge.bound)
        judge.ticks += self.step
        judge.look()
        return judge.verdict()


def _by(judge: Judge) -> list[str]:
    bounds = [
        f"{metric} {line.name}"
        for metric, one in judge.comparisons.items()
        for line in one.lines.values()
        if line.log_worse >= -np.log(line.alpha)
    ]
    return [*bounds, *(["served"] if judge.served.stream.is_worse else [])]


def _undecided(judge: Judge) -> list[str]:
    """Lines that lean to harm, or at which *not worse* was wanted and not shown."""
    return [
        f"{metric} {line.name} {'leans' if line.leans else 'not shown'}"
        for metric, one in judge.comparisons.items()
        for line in one.lines.values()
        if line.leans or (line.name in map(name_of, one.wanted.shown) and line.log_not_worse < -np.log(judge.alpha))
    ]


def _only(found: Requests, kept: np.ndarray) -> Requests:
    return replace(
        found,
        at=found.at[kept],
        tick=found.tick[kept],
        node=found.node[kept],
        stratum=found.stratum[kept],
        prefill=found.prefill[kept],
        queue=found.queue[kept],
        tpot=found.tpot[kept],
    )


def _outcomes(found: Requests, ticks: int, mine: np.ndarray, lost: np.ndarray) -> list[Outcomes]:
    counts = [
        np.bincount(found.tick[which], minlength=ticks).tolist() for which in (~mine, ~mine & lost, mine, mine & lost)
    ]
    return [Outcomes(*one) for one in zip(*counts, strict=True)]


def _room(found: Requests, ticks: int, mine: np.ndarray) -> Iterator[dict[str, Window]]:
    """What the judge's room sees of each tick."""
    for tick in range(ticks):
        windows = {QUEUE.short: Window(), PREFILL.short: Window()}
        for arm, which in (("control", ~mine), ("canary", mine)):
            for place, name in enumerate(CLASSES):
                here = which & (found.tick == tick) & (found.stratum % len(CLASSES) == place)
                for metric, window in windows.items():
                    sketch = Sketch(zero_count=int(here.sum()), total=float(values(found, metric)[here].sum()))
                    getattr(window, arm)[f"all {name}"] = sketch
        yield windows
