"""Thousands of agents on one service: from a decision to its being in force, what they cost idle, and after a kill.

    python -m benchmarks.agents_at_scale [--only decision,idle,storm] [--agents N] [--repeats 3] [--seed 1]

The service is the real one, `tailwright up`, in a process of its own on loopback. The agents are the product's own
OpAMP client and applier over WebSockets, one event loop for all of them in this process, each over an engine in memory
(`simulated_agent.py`); their tokens are written as rows, their state lies in memory (/dev/shm). Service and agents
share the machine's cores: what each used is told with every figure.

Nothing of the service is set otherwise than by default. Loopback is the address of a trusted proxy
(`--forwarded-allow-ips`), so that the limit of 4,096 connections of one address does not count here, and a WebSocket
is none of the 16,384 once it is open. Each process wants one and a half times as many open files as there are agents.

The exit status is 1 where a goal is not reached, 2 where the machine does not allow as many open files.
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.agents_at_scale import decision_times, idle_agents, reconnect_storm
from benchmarks.agents_at_scale.agent_crowd import Crowd, TooFewDescriptors, allow_descriptors
from benchmarks.delivery import KINDS, database_url
from benchmarks.engine_measures.machine import commit, describe_machine
from benchmarks.engine_measures.report import note, progress
from benchmarks.telemetry_measures.service import Service
from benchmarks.vllm_measures.processes import Nursery

Measure = Literal["decision", "idle", "storm"]
AGENTS: dict[Measure, int] = {"decision": 1_000, "idle": 10_000, "storm": 10_000}


@dataclass(frozen=True)
class Plan:
    """agents: of each measure, None: as the goal says; seconds: of the idle measure, settle_s: before it."""

    only: Sequence[Measure] = tuple(AGENTS)
    agents: int | None = None
    repeats: int = 3
    seed: int = 1
    seconds: float = 60.0
    settle_s: float | None = None
    database: str = "sqlite"

    def count(self, measure: Measure) -> int:
        return self.agents or AGENTS[measure]


def run(plan: Plan, nursery: Nursery) -> bool:
    """Each measure with a service, a database and agents of its own. Whether every goal was reached."""
    allow_descriptors(max(plan.count(measure) for measure in plan.only))
    return all([_measured(measure, plan, nursery) for measure in plan.only])


def _measured(measure: Measure, plan: Plan, nursery: Nursery) -> bool:
    count = plan.count(measure)
    progress(f"{measure}: {count:,} agents")
    with database_url(plan.database) as (url, version):
        service = Service(nursery, measure, os.sched_getaffinity(0), database_url=url)
        try:
            with Crowd(service, count, plan.seed) as crowd:
                reached = _told(measure, plan, service, crowd)
        finally:
            service.close()
        note(f"({plan.database} {version}, seed {plan.seed})")
        return reached


def _told(measure: Measure, plan: Plan, service: Service, crowd: Crowd) -> bool:
    count = plan.count(measure)
    match measure:
        case "decision":
            return decision_times.tell(decision_times.measure(service, crowd, plan.repeats), count)
        case "idle":
            return idle_agents.tell(idle_agents.measure(service, crowd, plan.seconds, plan.settle_s), count)
        case "storm":
            return reconnect_storm.tell(reconnect_storm.measure(service, crowd, plan.repeats), count)


def _plan() -> Plan:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(AGENTS), help="of decision, idle, storm, with commas between")
    parser.add_argument("--agents", type=int, help="of each measure; default: 1,000 for decision, else 10,000")
    parser.add_argument("--repeats", type=int, default=3, help="decisions, and kills")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the idle measure")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=KINDS, default="sqlite")
    given = parser.parse_args()
    asked = given.only.split(",")
    if unknown := [name for name in asked if name not in AGENTS]:
        parser.error(f"--only: no measure {unknown[0]!r}; there are {', '.join(AGENTS)}")
    only = [name for name in AGENTS if name in asked]
    return Plan(only, given.agents, given.repeats, given.seed, given.seconds, database=given.database)


def main() -> int:
    plan = _plan()
    note(f"## Agents at scale\n\n{describe_machine()}, commit {commit()}")
    nursery = Nursery(Path(tempfile.mkdtemp(prefix="tailwright-scale-")))
    progress(f"logs and files: {nursery.folder}")
    reached = False
    try:
        reached = run(plan, nursery)
    except TooFewDescriptors as error:
        note(f"error: {error}")
        return 2
    finally:
        nursery.close()
        if reached:
            shutil.rmtree(nursery.folder, ignore_errors=True)
    return 0 if reached else 1
