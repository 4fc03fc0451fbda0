"""Configurations that a node could not bring up: from the ledger and the fleet to findings.

The ledger is the source, not the node's row: an agent that goes back by itself has overwritten the row within a second,
while a failure's entry is in the transaction that took the agent's report in.

Guarantees: each failure is found once, however late the tick after it comes (within `hold_s`), and after a restart of
the service; one that was told of lasts until its end, however long that takes; nodes that do not serve never alert.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session

from controlplane import ledger
from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.conditions.fleet_wide.fleet_scope import concerned
from controlplane.alerts.conditions.kind import Findings, Job, Kind, Scope, Snapshot, Sources
from controlplane.contract.bodies.alerts import ConfigFailedCondition
from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.bodies.nodes import ConfigStatus, NodeRole, NodeView
from controlplane.fleet.opamp.session import CONFIG_APPLIED, CONFIG_FAILED

LONGEST_ERROR = 1500
LONGEST_ERROR_IN_SUMMARY = 300
LOOK_BACK_S = 60.0
"""Beyond `hold_s`: an entry's time is that of its report, and it is committed a little later."""
EVIDENCE = ("revision", "production_revision", "effective_revision", "differing")


@dataclass(frozen=True)
class Attempt:
    """A configuration that a node was given, and what came of it; `id` is the ledger entry's."""

    id: int
    at: datetime
    node: str
    evidence: Mapping[str, Any]

    @property
    def revision(self) -> int | None:
        found = self.evidence.get("revision")
        return found if isinstance(found, int) else None

    def dump(self) -> dict[str, Any]:
        return {"id": self.id, "at": self.at.isoformat(), "node": self.node, "evidence": dict(self.evidence)}

    @classmethod
    def load(cls, stored: Mapping[str, Any]) -> "Attempt":
        return cls(int(stored["id"]), datetime.fromisoformat(stored["at"]), stored["node"], stored["evidence"])


@dataclass(frozen=True)
class ConfigHistory:
    """What the ledger says of the last while, each in order."""

    failures: Sequence[Attempt] = ()
    applied: Sequence[Attempt] = ()


class ConfigFailed(Kind[ConfigFailedCondition]):
    condition = ConfigFailedCondition
    scope = Scope.FLEET
    dry_run_step_s = None

    def __init__(self, sources: Sources) -> None:
        super().__init__(sources)
        self._failed = ledger.Recent(CONFIG_FAILED, attempt_of)
        self._applied = ledger.Recent(CONFIG_APPLIED, attempt_of)
        self._history = ConfigHistory()

    def read(self, session: Session, conditions: Sequence[ConfigFailedCondition], now: datetime) -> None:
        """What the ledger says of configurations, as far back as a rule may want it."""
        if conditions:
            start = now - timedelta(seconds=max(condition.hold_s for condition in conditions) + LOOK_BACK_S)
            self._history = ConfigHistory(self._failed.since(session, start), self._applied.since(session, start))

    def judge(self, job: Job[ConfigFailedCondition], seen: Snapshot, end: datetime) -> Findings:
        failed = {failure.node for failure in self._history.failures}
        nodes = concerned(job, seen, lambda node: node.node in failed)
        return Findings(*judge_config_failed(job.condition, self._history, job.state, nodes, end, job.is_firing))


def attempt_of(entry: LedgerEntry) -> Attempt:
    """Entries made before evidence was kept still name revision and error, as do those of what was applied."""
    number = str(entry.evidence.get("hash", "")).partition(":")[0]
    told = {"revision": int(number) if number.isdecimal() else None, "error": entry.message, **entry.evidence}
    return Attempt(entry.id, entry.time, entry.subject.removeprefix("node/"), told)


def labels_of(node: NodeView) -> dict[str, str]:
    return {"kind": "config_failed", "pool": node.pool, "node": node.node}


def judge_config_failed(
    condition: ConfigFailedCondition,
    history: ConfigHistory,
    state: Mapping[str, Any],
    nodes: Sequence[NodeView],
    now: datetime,
    is_open: Callable[[dict[str, str]], bool],
) -> tuple[list[Finding], dict[str, Any]]:
    """Findings of every serving node in `nodes`, and the state for the next tick.

    State, empty at the rule's first tick: {"told": {node: ledger id of its newest failure}, "open": {node: the failure
    that lasts}}.
    """
    told = {name: int(number) for name, number in dict(state.get("told", {})).items()}
    lasting = {name: Attempt.load(stored) for name, stored in dict(state.get("open", {})).items()}
    oldest = now - timedelta(seconds=condition.hold_s + LOOK_BACK_S)
    first = not state
    findings: list[Finding] = []
    kept: dict[str, Attempt] = {}
    for node in nodes:
        if node.role is not NodeRole.SERVING:
            continue
        labels, before = labels_of(node), lasting.get(node.node)
        new = [
            failure
            for failure in history.failures
            if failure.node == node.node
            and failure.id > told.get(node.node, 0)
            and failure.at >= oldest
            and failure.evidence.get("role") != NodeRole.TRIAL.value
        ]
        if new:
            failure = new[-1]
            told[node.node] = failure.id
            if first and is_over(failure, node, history.applied, condition.hold_s, now):
                continue  # The rule is younger than what happened, and it is over.
            if before is not None and before.revision != failure.revision and is_open(labels):
                # Something else was rolled out, and failed too: that is an alert of its own.
                findings.append(Finding(labels, now, Reading.CLEAR))
            kept[node.node] = failure
            findings.append(_breach(failure, node, labels, now))
        elif before is not None and not is_over(before, node, history.applied, condition.hold_s, now):
            kept[node.node] = before
            findings.append(_breach(before, node, labels, now))
        else:
            findings.append(Finding(labels, now, Reading.CLEAR))
    there = {node.node for node in nodes}
    return findings, {
        "told": {name: number for name, number in sorted(told.items()) if name in there},
        "open": {name: failure.dump() for name, failure in sorted(kept.items())},
    }


def is_over(failure: Attempt, node: NodeView, applied: Sequence[Attempt], hold_s: float, now: datetime) -> bool:
    """Whether the node runs what it should, and enough time has passed or another configuration has come since."""
    if not _settled(node):
        return False
    if (now - failure.at).total_seconds() >= hold_s:
        return True
    # Going back to what was in production before is how a failure is mended, not a new configuration.
    back = {failure.evidence.get("production_revision"), failure.evidence.get("effective_revision"), None}
    return any(one.id > failure.id and one.node == node.node and one.revision not in back for one in applied)


def _settled(node: NodeView) -> bool:
    if node.config_status is ConfigStatus.APPLIED:
        return not node.drift
    # An agent that was set up anew has nothing to acknowledge; what it reads back from the engine tells.
    return node.config_status is ConfigStatus.UNSET and node.effective is not None and not node.drift


def _breach(failure: Attempt, node: NodeView, labels: dict[str, str], now: datetime) -> Finding:
    evidence = failure.evidence
    differing = evidence.get("differing") or {}
    changed = ", ".join(f"{name} {pair[0]} -> {pair[1]}" for name, pair in differing.items())
    error = str(evidence.get("error") or "the agent gave no reason")
    named = "a configuration" if failure.revision is None else f"revision {failure.revision}"
    runs = "" if node.effective is None else f"; it runs revision {node.effective.revision}"
    return Finding(
        labels,
        now,
        Reading.BREACH,
        since=failure.at,
        summary=(
            f"node {node.node} could not bring up {named}{f' ({changed})' if changed else ''}{runs}; "
            f"the node says: {_last(error, LONGEST_ERROR_IN_SUMMARY)}"
        ),
        evidence={
            **{name: evidence.get(name) for name in EVIDENCE},
            "error": _last(error, LONGEST_ERROR),
            "failed_at": failure.at.isoformat(),
            "runs_now": None if node.effective is None else node.effective.revision,
            "desired_revision": node.desired_revision,
            "config_status": node.config_status.value,
            "ledger_entry": failure.id,
            "error_rate": {"statement": "told by the node itself: no statistics, no chance involved"},
        },
    )


def _last(text: str, most: int) -> str:
    """The end of a text, where a log says why."""
    return text if len(text) <= most else "[...] " + text[-most:]
