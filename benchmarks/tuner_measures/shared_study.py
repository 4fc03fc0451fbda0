"""A study on one trial node and on two, live: how much sooner its trials and all of it are done.

    python -m benchmarks.tuner_measures.shared_study --rounds 3

Each is a fleet of its own, as `make run` starts it (service, two serving nodes, agents, steady traffic), with one or
two trial nodes and as many workers, and the same study of the same traffic, one after the other. A trial replays its
slice at the rate at which it came, so that it takes its time whoever measures it; the load is low, since all engines
share this machine's cores. `tries on`: how many trials each node measured.
"""

import argparse
import platform
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from agents.demo.demo_fleet import Fleet
from agents.demo.engines import TAILWRIGHT
from agents.demo.plan import POOL, TRIAL_POOL, Plan
from benchmarks.engine_measures.machine import describe_machine
from benchmarks.tuner_measures.live_fleet import all_nodes, study_live
from controlplane.contract.bodies.studies import FINALIST, StudyCreate, StudyState
from tests.processes import free_ports

LIMIT_S = 1800.0


@dataclass(frozen=True)
class Took:
    """Seconds from asking for the study: until its last trial of the search was reported, and until it ended."""

    searched_s: float
    whole_s: float
    trials: int
    runs: int
    by_node: dict[str | None, int]


def measure(plan: Plan, second_port: int | None, asked: StudyCreate) -> Took:
    """One fleet and its study. Raises AssertionError where it does not come up, or does not end as it should."""

    def start(fleet: Fleet) -> int:
        nodes = all_nodes(fleet)
        if second_port is None:
            return nodes
        fleet.start_node("trial-2", second_port, TRIAL_POOL, "trial")
        tokens = ["--token-file", str(fleet.token_file("tuner-token"))]
        worker = [*TAILWRIGHT, "tune", "--name", "second", "--server", fleet.url, *tokens]
        fleet.processes.start("second-worker", worker)
        return nodes + 1

    with study_live(plan, asked, LIMIT_S, start) as (client, study):
        assert study.state is StudyState.FINISHED, f"the study {study.state}: {study.error}"
        trials = client.trials(study.id)
    searched = [one for one in trials if one.kind != FINALIST and one.reported_at is not None]
    assert study.created_at is not None and study.finished_at is not None
    last = max(one.reported_at for one in searched if one.reported_at is not None)
    return Took(
        (last - study.created_at).total_seconds(),
        (study.finished_at - study.created_at).total_seconds(),
        len(searched),
        len(trials),
        dict(Counter(one.node for one in trials)),
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--rate", type=float, default=2.0, help="requests a second of the pool")
    options.add_argument("--trials", type=int, default=8)
    options.add_argument("--trial-requests", type=int, default=40)
    options.add_argument("--pairs", type=int, default=4)
    options.add_argument("--history", type=float, default=90.0, help="seconds of traffic that are captured")
    options.add_argument("--seed", type=int, default=1)
    wanted = options.parse_args()
    print(f"{describe_machine('cpu')}\n- python {platform.python_version()}, seeds from {wanted.seed}\n")
    print(
        "| round | trial nodes | search, s | all of it, s | trials | replays | tries on |\n" + 7 * "|---" + "|",
        flush=True,
    )
    found: dict[int, list[Took]] = {1: [], 2: []}
    for number in range(wanted.rounds):
        for nodes in (1, 2) if number % 2 == 0 else (2, 1):
            service, first, second, trial, other = free_ports(5)
            with tempfile.TemporaryDirectory() as folder:
                plan = replace(Plan(), port=service, engine_ports=(first, second), trial_port=trial, rate=wanted.rate)
                plan = replace(plan, data_dir=Path(folder) / "data", seed=wanted.seed + number)
                asked = StudyCreate(
                    pool=POOL,
                    objective="e2e",
                    objective_q=0.5,
                    workload_s=wanted.history,
                    max_trials=wanted.trials,
                    max_duration_s=LIMIT_S,
                    trial_requests=wanted.trial_requests,
                    finalist_repeats=wanted.pairs,
                    seed=plan.seed,
                    propose_rollout=False,
                )
                took = measure(plan, other if nodes == 2 else None, asked)
            found[nodes].append(took)
            places = ", ".join(f"{name} {count}" for name, count in sorted(took.by_node.items(), key=str))
            print(
                f"| {number + 1} | {nodes} | {took.searched_s:.0f} | {took.whole_s:.0f} | {took.trials} | {took.runs} "
                f"| {places} |",
                flush=True,
            )
    alone, shared = (median(one.searched_s / one.trials for one in found[nodes]) for nodes in (1, 2))
    whole = [median(one.whole_s / one.runs for one in found[nodes]) for nodes in (1, 2)]
    print(
        f"\nA trial of the search: {alone:.1f} s on one, {shared:.1f} s on two, {alone / shared:.2f} x sooner; "
        f"a replay of all of it: {whole[0]:.1f} and {whole[1]:.1f} s, {whole[0] / whole[1]:.2f} x."
    )


if __name__ == "__main__":
    main()
