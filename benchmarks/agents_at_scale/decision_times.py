"""From a decision to its being in force: an emergency rollout, which is the product's direct way to a pool's revision.

The clock starts as the API is asked (the ledger's time of the decision is this one). Applied is what an agent's engine
runs. Known is what it has reported as APPLIED besides, and got the service's answer to: by then it is committed, and
this is what the goal is held against. `GET /api/v1/nodes` is asked after the last, and must say so of every node.
"""

import gc
import time
from dataclasses import dataclass
from statistics import median

from benchmarks.agents_at_scale.agent_crowd import POOL, Crowd
from benchmarks.agents_at_scale.spent import Meter, Spent
from benchmarks.engine_measures.report import heading, note, progress, table
from benchmarks.engine_measures.stats import quantile
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.telemetry_measures.service import Service
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import ConfigStatus
from controlplane.contract.bodies.rollouts import ENDED, RolloutCreate, RolloutPhase

GOAL_S = 0.5
_IN_FORCE_LIMIT_S, _END_LIMIT_S = 120.0, 120.0
_FIRST_SEQS = 40


@dataclass(frozen=True)
class Decided:
    """One decision. asked_s: the API's answer; got_s, applied_s, in_force_s: each agent's; missing: agents of which the
    service did not know in time that it is in force; untold: nodes of which the service does not say so; messages: that
    the agents sent meanwhile."""

    asked_s: float
    got_s: list[float]
    applied_s: list[float]
    in_force_s: list[float]
    missing: int
    untold: int
    messages: int
    phase: RolloutPhase
    spent: Spent

    @property
    def holds(self) -> bool:
        return not self.missing and not self.untold and quantile(self.in_force_s, 0.99) <= GOAL_S


def measure(service: Service, crowd: Crowd, repeats: int) -> list[Decided]:
    """Raises `WorkerFailed`."""
    crowd.connect()
    # What the first node ran became the pool's first revision, whose number all others are told.
    crowd.wait(lambda: all(agent.runs(1) for agent in crowd.agents), "each agent runs its pool's first revision")
    with_its_own_collector()
    return [_decide(service, crowd, _FIRST_SEQS + repeat) for repeat in range(repeats)]


def with_its_own_collector() -> None:
    """A thousand agents in one process have one collector of cycles, which would halt all of them for a quarter of a
    second at once; each on its machine walks its own few objects."""
    gc.collect()
    gc.freeze()


def _decide(service: Service, crowd: Crowd, seqs: int) -> Decided:
    number = service.client.create_config(RevisionCreate(knobs={"max_num_seqs": seqs})).number
    crowd.follow(number)
    wanted = RolloutCreate(pool=POOL, revision=number, emergency=True, reason="benchmark")
    meter, sent, began = Meter(service), crowd.sent(), time.monotonic()
    begun = service.client.create_rollout(wanted)
    asked_s = time.monotonic() - began
    crowd.within(lambda: all(agent.followed.in_force_s is not None for agent in crowd.agents), _IN_FORCE_LIMIT_S)
    spent, messages = meter.spent(), crowd.sent() - sent
    followed = [agent.followed for agent in crowd.agents]
    got = [one.offered_s - began for one in followed if one.offered_s is not None]
    applied = [one.applied_s - began for one in followed if one.applied_s is not None]
    in_force = [one.in_force_s - began for one in followed if one.in_force_s is not None]
    said = [
        node.config_status is ConfigStatus.APPLIED and node.effective is not None and node.effective.revision == number
        for node in service.client.nodes(pool=POOL)
    ]
    count = len(crowd.agents)
    phase = _ended(service, begun.id)
    progress(f"decision: revision {number} in force on {len(in_force)} of {count}")
    return Decided(asked_s, got, applied, in_force, count - len(in_force), count - sum(said), messages, phase, spent)


def _ended(service: Service, rollout_id: int) -> RolloutPhase:
    until = time.monotonic() + _END_LIMIT_S
    while (phase := service.client.rollout(rollout_id).phase) not in ENDED:
        if time.monotonic() > until:
            raise WorkerFailed(f"rollout {rollout_id} is {phase.value} after {_END_LIMIT_S:g} s")
        time.sleep(0.2)
    return phase


def tell(found: list[Decided], agents: int) -> bool:
    """Whether the goal was reached each time."""
    heading(f"From a decision to in force: {agents:,} agents of one pool")
    head = ["decision", "API's answer, s", "got it p50 / p99 / max, s"]
    head += ["applied at the agent p50 / p99 / max, s", "known to the service p50 / p99 / max, s"]
    rows = [
        [
            *(str(place), f"{one.asked_s:.3f}", _three(one.got_s), _three(one.applied_s), _three(one.in_force_s)),
            *(str(one.missing), str(one.untold), one.phase.value),
        ]
        for place, one in enumerate(found, 1)
    ]
    table([*head, "not in time", "GET /api/v1/nodes says otherwise", "rollout"], rows)
    for place, one in enumerate(found, 1):
        each = f"{1000 * one.spent.service_s / agents:.2f} ms of the service's and {one.messages / agents:.1f} messages"
        note(f"- {place}: {one.spent}; per agent {each}")
    note(f"- p99, applied at the agent: {_over_all([one.applied_s for one in found])}")
    note(f"- p99, known to the service: {_over_all([one.in_force_s for one in found])}")
    reached = all(one.holds for one in found)
    said = "reached" if reached else "NOT reached"
    note(f"\nGoal: known to the service within {GOAL_S:g} s (p99) each time: **{said}**.")
    return reached


def _over_all(found: list[list[float]]) -> str:
    """Of the decisions' p99."""
    p99s = sorted(quantile(one, 0.99) for one in found)
    within = sum(one <= GOAL_S for one in p99s)
    return (
        f"{p99s[0]:.2f} to {p99s[-1]:.2f} s, {median(p99s):.2f} s at the median, {within} of {len(p99s)} within "
        f"{GOAL_S:g} s"
    )


def _three(values: list[float]) -> str:
    return " / ".join(f"{quantile(values, share):.3f}" for share in (0.5, 0.99, 1.0))
