"""A pool that does what the machine decides, in memory."""

from datetime import UTC, datetime

from controlplane.contract.bodies.rollouts import RolloutCreate, RolloutPhase, Verdict
from controlplane.rollouts import machine
from controlplane.rollouts.decision import (
    ClearOverrides,
    Decision,
    Facts,
    NodeFact,
    SetOverride,
    SetPoolRevision,
    State,
)

START = datetime(2025, 3, 1, tzinfo=UTC)
OLD, NEW = 3, 7
SPEC = RolloutCreate(
    pool="chat",
    revision=NEW,
    min_judge_s=30,
    max_judge_s=120,
    apply_timeout_s=60,
    canary_share=0.25,
    reason="x",
    on_inconclusive="roll_back",
)


class World:
    """A pool as the actions leave it, whose nodes obey, lag or fail as told."""

    def __init__(self, nodes: int, spec: RolloutCreate = SPEC, previous: int | None = OLD) -> None:
        self.names = [f"n{number}" for number in range(nodes)]
        self.pool: int | None = previous
        self.overrides: dict[str, int] = {}
        self.runs: dict[str, int | None] = {name: previous for name in self.names}
        self.state = State(RolloutPhase.PROPOSED, spec, previous_revision=previous)
        self.now = START
        self.decisions: list[Decision] = []
        self.pools_set: list[int] = []

    def desired(self, name: str) -> int | None:
        return self.overrides.get(name, self.pool)

    def take(self, decision: Decision) -> None:
        assert decision.phase in machine.TRANSITIONS[self.state.phase]
        for action in decision.actions:
            match action:
                case SetOverride(nodes, revision):
                    self.overrides |= dict.fromkeys(nodes, revision)
                case ClearOverrides(nodes):
                    for name in nodes:
                        self.overrides.pop(name, None)
                case SetPoolRevision(revision):
                    self.pool = revision
                    self.pools_set.append(revision)
        self.decisions.append(decision)
        self.state = State(
            phase=decision.phase,
            spec=self.state.spec,
            verdict=decision.verdict,
            previous_revision=self.state.previous_revision,
            canary_nodes=decision.canary_nodes,
            told_nodes=decision.told_nodes,
            step_since=self.now,
            message=decision.message,
            resumes=decision.resumes,
        )

    def facts(self, judged: Verdict | None = None, **each: dict[str, object]) -> Facts:
        fact = {"connected": True, "healthy": True, "error": None, "lost_s": 0.0}
        return Facts(
            tuple(
                NodeFact(
                    node=name,
                    runs_new=self.runs[name] == NEW,
                    runs_previous=self.runs[name] == OLD,
                    **{**fact, **each.get(name, {})},  # type: ignore[arg-type]
                )
                for name in self.names
            ),
            judged,
        )

    def obey(self) -> None:
        self.runs = {name: self.desired(name) for name in self.names}

    def advance(self, facts: Facts) -> None:
        decision = machine.advance(self.state, facts, self.now)
        if decision is not None:
            self.take(decision)
