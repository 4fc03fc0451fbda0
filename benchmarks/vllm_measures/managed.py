"""Changes that only another vLLM process can make, under load, on a managed node: with a standby and without, to
configurations that start and to one that cannot, and what each cost.
"""

import time
from dataclasses import dataclass
from typing import Any

from benchmarks.engine_measures.report import figure, heading, note, progress, skipped, table
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.vllm_measures import proxy_cost
from benchmarks.vllm_measures.managed_node import CAPACITY, POOL, ManagedNode
from benchmarks.vllm_measures.proc_files import command_lines
from benchmarks.vllm_measures.session import Session
from benchmarks.vllm_measures.traffic.background import load
from benchmarks.vllm_measures.traffic.clients import requests
from benchmarks.vllm_measures.traffic.shapes import mixed
from controlplane.contract.bodies.rollouts import RolloutPhase
from controlplane.contract.knobs import ChangeClass

_CLIENTS = 8
_CANNOT_START: dict[str, Any] = {"quantization": "int8"}
_ALERT_LIMIT_S = 60.0
_AFTER_S = 3.0


@dataclass(frozen=True)
class Told:
    """One change as the report shows it. `took_s`: until the rollout had ended, by the benchmark's own clock."""

    name: str
    failed: str
    took_s: float
    ended: str
    waited_s: float
    of_agent: str
    fine: bool


def measure(session: Session) -> None:
    session.close_attached()
    heading("Changes that need another vLLM process")
    node = ManagedNode(session)
    began = time.monotonic()
    rows: list[Told] = []
    try:
        node.start(standby=True)
        first_s = time.monotonic() - began
        progress(f"managed: the first server serves after {first_s:.0f} s")
        proxy_cost.measure(session, node)
        prompts = requests(session.texts.code("managed"), mixed(f"{session.settings.seed}:managed", 150))

        def one(name: str, knobs: dict[str, Any], *, starts: bool = True) -> None:
            try:
                rows.append(_change(session, node, prompts, name, knobs, starts=starts))
            except WorkerFailed as error:
                skipped(name, str(error))

        one("live: 6 requests at once", {"max_num_seqs": 6})
        one("standby: 12 at once, started with 8", {"max_num_seqs": 12})
        one("standby, cannot start", {"max_num_seqs": 12, **_CANNOT_START}, starts=False)
        rows.append(_agent_killed(session, node, prompts))
        one("no standby: 16 at once", {"max_num_seqs": 16})
        one("no standby, cannot start", {"max_num_seqs": 16, **_CANNOT_START}, starts=False)
    finally:
        try:
            if rows:
                _print(rows)
                _costs(node)
        finally:
            node.stop()


def _change(
    session: Session,
    node: ManagedNode,
    prompts: list[dict[str, Any]],
    name: str,
    knobs: dict[str, Any],
    *,
    starts: bool,
) -> Told:
    """Roll it out under load; then look at what the control plane says of it."""
    before = node.view().effective
    with load(session, node.port, prompts, clients=_CLIENTS) as outcome:
        time.sleep(1.0)
        rollout, took_s = node.roll_out(knobs)
        time.sleep(_AFTER_S)
    served = outcome.served
    view = node.view()
    runs = view.effective.knobs if view.effective else {}
    cost = _last_cost(view.effective.costs if view.effective else {}, before.costs if before else {})
    if starts:
        fine = rollout.phase is RolloutPhase.PROMOTED and all(runs.get(key) == value for key, value in knobs.items())
        ended = "in force" if fine else f"{rollout.phase.value}: {rollout.message[:100]}"
    else:
        back = before is not None and runs == before.knobs
        alert = _alert(session, rollout.spec.revision)
        told = f"alert {alert}" if alert else "NO alert"
        fine = rollout.phase is RolloutPhase.ROLLED_BACK and back and bool(alert)
        ended = f"{'back on the previous one' if back else f'runs {runs}'}; {told}"
    progress(f"managed: {name}: failed {served.summary}, {took_s:.1f} s, {ended}, agent: {cost}")
    return Told(name, served.summary, took_s, ended, served.longest_first_token_s, cost, fine and not served.failed)


def _agent_killed(session: Session, node: ManagedNode, prompts: list[dict[str, Any]]) -> Told:
    """SIGKILL, then another agent with a node file that allows no standby: it takes over what runs."""
    with load(session, node.port, prompts, clients=_CLIENTS) as outcome:
        time.sleep(1.0)
        pids = command_lines(session.nursery.mark, " serve ")
        node.kill_agent()
        time.sleep(_AFTER_S)
        began = time.monotonic()
        node.start(standby=False)
        took_s = time.monotonic() - began
        adopted = bool(pids) and command_lines(session.nursery.mark, " serve ") == pids
    served = outcome.served
    ended = "the new agent took the running server over" if adopted else "the server was STARTED AGAIN"
    progress(f"managed: agent killed: failed {served.summary}, {took_s:.1f} s, {ended}")
    name = "agent killed, another one started"
    return Told(name, served.summary, took_s, ended, served.longest_first_token_s, "-", adopted and not served.failed)


def _last_cost(after: dict[ChangeClass, Any], before: dict[ChangeClass, Any]) -> str:
    """What the agent reported of the change just made: the class whose count has grown."""
    for kind, cost in after.items():
        if cost.count > (before[kind].count if kind in before else 0):
            return f"{kind.value}: {cost.last_s:.2f} s"
    return "-"


def _alert(session: Session, revision: int) -> str:
    """The alert of this failed revision, waited for a little: its state, and the first lines of the log it quotes."""
    until = time.monotonic() + _ALERT_LIMIT_S
    while time.monotonic() < until:
        for alert in session.plane.client.alerts():
            failed = alert.labels.get("kind") == "config_failed" and alert.labels.get("pool") == POOL
            if failed and alert.evidence.get("revision") == revision:
                said = str(alert.evidence.get("error", "")).strip().splitlines()
                quoted = "; ".join(line.strip()[:120] for line in said[1:3] or said[:1])
                return f"{alert.state.value}: {quoted or 'no reason'}".replace("|", "/")
        time.sleep(0.5)
    return ""


def _print(rows: list[Told]) -> None:
    note(
        f"A managed node (capacity {CAPACITY['max_num_seqs']} requests), {_CLIENTS} clients in a closed loop through "
        "the local proxy from a second before each change until three seconds after it. Changes are emergency "
        "rollouts; what cannot start is a variant whose weights are cut off. Took: from the rollout's creation until "
        "it had ended, in force or rolled back, by the benchmark's clock; the agent's own figure is from its receipt "
        "until the change was in force. Longest wait: of any request until its first token."
    )
    table(
        ["change", "failed requests", "took, s", "longest wait, s", "agent's figure", "ended"],
        [[one.name, one.failed, figure(one.took_s), figure(one.waited_s), one.of_agent, one.ended] for one in rows],
    )
    wrong = [one.name for one in rows if not one.fine]
    verdict = "reached" if not wrong else f"NOT reached: {'; '.join(wrong)}"
    note(f"Goal 0 failed requests, and back on the previous configuration with an alert: **{verdict}**.")


def _costs(node: ManagedNode) -> None:
    effective = node.view().effective
    costs = effective.costs if effective is not None else {}
    if not costs:
        note("GET /api/v1/nodes reports no costs.")
        return
    note("\nWhat changes cost on this node, as GET /api/v1/nodes reports it (`effective.costs`):")
    table(
        ["class", "changes", "last, s", "mean, s", "requests had to wait, mean s"],
        [
            [kind.value, str(one.count), figure(one.last_s), figure(one.mean_s), figure(one.unavailable_s)]
            for kind, one in costs.items()
        ],
    )
