"""A canary that loses requests, judged on simulated traffic: how soon is it worse, and are equal arms left alone?

    python -m benchmarks.rollout_measures.canary_shed [--nulls 300] [--caught 40] [--seed 1]

Each trial is one rollout: 30 minutes of history in which both arms run the same, then up to 15 minutes of judging by
e2e and the share of requests served (equal arms: 30 minutes, by that share alone). Windows are 5 s wide, arrivals
Poisson, latency lognormal (sigma 0.6) unless a queue is simulated.

Harm: the canary loses its slowest 30 % (shed at the door, or timed out), beside a control that loses none, or 0.1 %.
Nulls: both lose a steady share; both are queues of their own that are overloaded by a tenth and shed what is beyond 20
waiting, so that losses come in bursts of each arm's own.

Delays are from the first judged window to the end of the window that showed it; the service adds 15 s (SETTLE_S and
LAG_S). "before": one node, judged against its own history.
"""

import argparse
import math
import platform
import time
from collections import deque
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from benchmarks.canary import TICK_S, Floats, interval, sketch_of
from controlplane.contract.bodies.rollouts import RolloutCreate, Verdict
from controlplane.rollouts.judging.evidence_of_metric import Window
from controlplane.rollouts.judging.judge import Control, Judge
from controlplane.rollouts.judging.judging_plan import plan_of
from controlplane.rollouts.judging.served import Outcomes, ServedShare

HISTORY_TICKS, JUDGED_TICKS = 360, 180
QUEUE_LIMIT = 20

Arm = Callable[[bool], tuple[Floats, int]]
"""One tick of one arm: latencies of those served, and how many were lost. The argument: is it being judged?"""


def steady(rng: np.random.Generator, rate: float, lost: float = 0.0, judged_lost: float | None = None) -> Arm:
    """Loses a share at random; or, once judged, its slowest `judged_lost`."""

    def tick(judged: bool) -> tuple[Floats, int]:
        values = 0.2 * np.exp(0.6 * rng.normal(size=rng.poisson(rate * TICK_S)))
        if judged and judged_lost is not None:
            kept = np.sort(values)[: len(values) - int(rng.binomial(len(values), judged_lost))]
            return kept, len(values) - len(kept)
        kept = values[rng.random(len(values)) >= lost]
        return kept, len(values) - len(kept)

    return tick


def queue(rng: np.random.Generator, rate: float, load: float) -> Arm:
    """One server with exponential service at `load` times its capacity, which sheds beyond QUEUE_LIMIT waiting."""
    ends: deque[float] = deque()
    clock = 0.0

    def tick(judged: bool) -> tuple[Floats, int]:
        nonlocal clock
        times = clock + np.sort(rng.random(rng.poisson(rate * TICK_S))) * TICK_S
        clock += TICK_S
        served: list[float] = []
        for now, service in zip(times, rng.exponential(load / rate, size=len(times)), strict=True):
            while ends and ends[0] <= now:
                ends.popleft()
            if len(ends) > QUEUE_LIMIT:
                continue
            ends.append((ends[-1] if ends else now) + service)
            served.append(ends[-1] - now)
        return np.array(served), len(times) - len(served)

    return tick


def rollout(control: Arm, canary: Arm, mode: Control) -> tuple[float | None, float | None, bool]:
    """Seconds until worse, and until anything good was said; whether the served share alone was found worse."""
    plan = plan_of(RolloutCreate(pool="p", revision=1, metrics=["e2e"]))
    assert plan is not None
    judge = Judge.start(plan, control=mode)

    def tick(judged: bool) -> tuple[dict[str, Window], Outcomes]:
        (a, a_lost), (b, b_lost) = control(judged), canary(judged)
        arms = {"": sketch_of(a)}, {"": sketch_of(b)}
        outcomes = Outcomes(len(a) + a_lost, a_lost, len(b) + b_lost, b_lost)
        return {metric: Window(*arms) for metric in ("e2e",)}, outcomes

    past = [tick(False) for _ in range(HISTORY_TICKS)]
    history = {metric: [windows[metric] for windows, _ in past] for metric in ("e2e",)}
    judge.rehearse(history, [outcomes for _, outcomes in past])
    good_s: float | None = None
    for number in range(1, JUDGED_TICKS + 1):
        judge.feed(*tick(True))
        said = judge.verdict()
        if said is Verdict.WORSE:
            return float(number * TICK_S), good_s, judge.served.stream.is_worse
        if said is not None and good_s is None:
            good_s = float(number * TICK_S)
    return None, good_s, False


def told_apart(control: Arm, canary: Arm) -> bool:
    """Whether the served share of two equal arms, judged by itself at the loosest bound, is ever called worse."""
    served = ServedShare.start()

    def tick(judged: bool) -> Outcomes:
        (a, a_lost), (b, b_lost) = control(judged), canary(judged)
        return Outcomes(len(a) + a_lost, a_lost, len(b) + b_lost, b_lost)

    served.rehearse([tick(False) for _ in range(HISTORY_TICKS)], concurrent=True)
    for _ in range(HISTORY_TICKS):
        served.feed(tick(True), concurrent=True, bound=math.log(2 / 0.01))
    return served.stream.is_worse


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nulls", type=int, default=300)
    parser.add_argument("--caught", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    wanted = parser.parse_args()
    began = time.monotonic()
    print(f"python {platform.python_version()}, numpy {np.__version__}, {platform.machine()}, seed {wanted.seed}")
    print(
        "| requests/s, canary share | the canary loses its slowest 30 %; the control | worse | good said before | s |"
    )
    print("|---|---|---|---|---|")
    modes: Sequence[Control] = ("concurrent", "before")
    for row, (rate, share, beside, mode) in enumerate(
        [(rate, share, 0.0, modes[0]) for rate in (5.0, 10.0, 20.0) for share in (0.2, 0.5)]
        + [(5.0, 0.5, 0.001, modes[0]), (5.0, 0.5, 0.0, modes[1]), (20.0, 0.5, 0.0, modes[1])]
    ):
        found = []
        for trial in range(wanted.caught):
            rng = np.random.default_rng((wanted.seed, row, trial))
            arms = steady(rng, rate * (1 - share), beside), steady(rng, rate * share, beside, 0.3)
            found.append(rollout(*arms, mode))
        delays = [worse_s for worse_s, _, _ in found if worse_s is not None]
        good = sum(good_s is not None for _, good_s, _ in found)
        name = f"{rate:g}/s, {share:.0%}" if mode == "concurrent" else f"{rate * share:g}/s, one node (before)"
        print(
            f"| {name} | loses {beside:.1%} | {len(delays)}/{len(found)} | {good} | {median(delays):.0f}, "
            f"at most {max(delays):.0f} |",
            flush=True,
        )
    print("\n| equal arms, 30 min of served share | worse |\n|---|---|")
    nulls: list[tuple[str, Callable[[np.random.Generator], Arm]]] = [
        ("both lose none", lambda rng: steady(rng, 5.0)),
        ("both lose 5 %", lambda rng: steady(rng, 5.0, 0.05)),
        ("both lose 30 %", lambda rng: steady(rng, 5.0, 0.3)),
        ("overloaded queues, bursts of their own", lambda rng: queue(rng, 5.0, 1.1)),
    ]
    for row, (name, make) in enumerate(nulls, 90):
        worse = 0
        for trial in range(wanted.nulls):
            rng = np.random.default_rng((wanted.seed, row, trial))
            worse += told_apart(make(rng), make(rng))
        print(f"| {name} | {worse} of {wanted.nulls}: {interval(worse, wanted.nulls)} |", flush=True)
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
