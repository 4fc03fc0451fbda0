"""What must hold at every moment of a rollout's life, whatever is injected: pure, over what was looked at.

The ledger is the witness: what it tells is replayed, and held against what the database and the engines show.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from controlplane.contract.bodies.rollouts import ENDED, NOT_BEGUN, RolloutPhase
from controlplane.rollouts.machine import TRANSITIONS

NEVER_GIVEN = 0
"""The revision of an engine that was never given one."""
_PHASES = {phase.value for phase in RolloutPhase}


@dataclass(frozen=True)
class RolloutSeen:
    """A rollout's row. judged: windows that its judge was fed, and those that have closed until where it has come.
    wave: when the canary, or the wave, began to be judged.
    """

    id: int
    pool: str
    phase: RolloutPhase
    step: int
    holds_pool: bool
    revision: int
    told: tuple[str, ...] = ()
    judged: tuple[int, int] | None = None
    wave: str = ""


@dataclass(frozen=True)
class NodeSeen:
    """What a node's engine runs, told by the engine. silent_s: since its agent was answered last."""

    name: str
    runs: int
    silent_s: float = 0.0
    linked: bool = True
    dead: bool = False
    was_cut: bool = False


@dataclass(frozen=True)
class Entry:
    """Of the ledger."""

    kind: str
    subject: str
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Look:
    """All at one moment, in seconds of the run. entries: since the look before."""

    at_s: float
    pool_revision: int | None
    rollouts: tuple[RolloutSeen, ...]
    nodes: tuple[NodeSeen, ...]
    entries: tuple[Entry, ...]


@dataclass
class _Told:
    """What the ledger tells of one rollout."""

    created: int = 0
    started: int = 0
    phases: list[RolloutPhase] = field(default_factory=list)
    waits: bool = False


class Invariants:
    """`look` takes one look after another, and returns what is wrong in each, in sentences; each once.

    lease_s: of the agents, and how much later it may be seen to be over; told_within_s: how soon who hears the service
    has done what it says.
    """

    def __init__(self, lease_s: float, told_within_s: float) -> None:
        self._lease_s, self._told_within_s = lease_s, told_within_s
        self._told: dict[int, _Told] = {}
        self._let_through: set[int] = {NEVER_GIVEN}
        self._pool: int | None = None
        self._steps: dict[int, int] = {}
        self._closed: dict[tuple[int, str], int] = {}
        self._since: dict[str, float] = {}
        self._said: set[str] = set()

    def look(self, look: Look) -> list[str]:
        promoted = self._replay(look.entries)
        found = [
            *self._one_at_a_time(look),
            *(one for rollout in look.rollouts for one in self._of_rollout(rollout)),
            *self._in_production(look),
            *(self._confirmed(look, promoted) if promoted is not None else ()),
            *(one for node in look.nodes for one in self._judged_or_leased(node, look)),
        ]
        fresh = [one for one in dict.fromkeys(found) if one not in self._said]
        self._said.update(fresh)
        return fresh

    # -- the ledger ------------------------------------------------------------------------------------------------

    def _replay(self, entries: Sequence[Entry]) -> int | None:
        """The revision that was promoted by a judged rollout in these entries, if one was."""
        promoted = None
        for entry in entries:
            area, _, verb = entry.kind.partition(".")
            if entry.kind == "revision.adopted":
                self._give(entry.evidence["revision"])
            if area != "rollout" or not entry.subject.startswith("rollout/"):
                continue
            told = self._told.setdefault(int(entry.subject.partition("/")[2]), _Told())
            told.created += verb == "created"
            told.started += verb == "started"
            if verb not in _PHASES:
                continue
            phase, emergency = RolloutPhase(verb), entry.evidence.get("emergency", False)
            told.phases.append(phase)
            if phase is RolloutPhase.PROMOTED or (phase is RolloutPhase.PROMOTING and emergency):
                self._give(entry.evidence["revision"])
                promoted = None if emergency else entry.evidence["revision"]
            if phase is RolloutPhase.ROLLING_BACK:
                self._give(entry.evidence["previous_revision"])
        return promoted

    def _give(self, revision: int | None) -> None:
        self._pool = revision
        if revision is not None:
            self._let_through.add(revision)

    # -- what must hold ----------------------------------------------------------------------------------------------

    def _one_at_a_time(self, look: Look) -> list[str]:
        found = []
        under_way = [one for one in look.rollouts if one.phase not in ENDED | NOT_BEGUN]
        if len({one.pool for one in under_way}) < len(under_way):
            found.append(f"rollouts {[one.id for one in under_way]} are under way in one pool")
        for one in look.rollouts:
            if one.holds_pool != (one in under_way):
                found.append(f"rollout {one.id} is {one.phase.value}, and holds its pool: {one.holds_pool}")
        return found

    def _of_rollout(self, seen: RolloutSeen) -> list[str]:
        found = []
        told = self._told.get(seen.id, _Told())
        if told.created != 1 or told.started > 1:
            found.append(f"the ledger has rollout {seen.id} created {told.created}, started {told.started} times")
        if len(told.phases) != seen.step:
            found.append(f"rollout {seen.id} has taken {seen.step} steps, the ledger has {len(told.phases)}")
        elif told.phases and told.phases[-1] is not seen.phase:
            found.append(f"rollout {seen.id} is {seen.phase.value}, the ledger's last is {told.phases[-1].value}")
        for before, after in zip(told.phases, told.phases[1:], strict=False):
            if after not in TRANSITIONS[before]:
                found.append(f"rollout {seen.id} went from {before.value} to {after.value}")
        if seen.step < self._steps.get(seen.id, 0):
            found.append(f"rollout {seen.id} has lost a step: {seen.step} after {self._steps[seen.id]}")
        self._steps[seen.id] = seen.step
        if seen.judged is not None and seen.judged[0] != seen.judged[1]:
            found.append(f"rollout {seen.id} has judged {seen.judged[0]} windows where {seen.judged[1]} have closed")
        if seen.judged is not None:
            known = self._closed.get((seen.id, seen.wave), 0)
            if seen.judged[1] < known:
                found.append(f"rollout {seen.id} has come back to window {seen.judged[1]} from {known}")
            self._closed[seen.id, seen.wave] = seen.judged[1]
        return found

    def _in_production(self, look: Look) -> list[str]:
        if look.pool_revision == self._pool:
            return []
        return [f"the pool's revision is {look.pool_revision}, by the ledger it is {self._pool}"]

    def _confirmed(self, look: Look, promoted: int) -> list[str]:
        """No cut-off node is told late: what hears the service runs what was promoted at that moment."""
        others = [one.name for one in look.nodes if one.runs != promoted and one.linked and not one.was_cut]
        return [f"revision {promoted} was promoted while {', '.join(others)} did not run it"] if others else []

    def _judged_or_leased(self, node: NodeSeen, look: Look) -> list[str]:
        if node.runs in self._let_through or node.dead:
            self._since.pop(node.name, None)
            return []
        found = []
        if node.silent_s > self._lease_s:
            found.append(f"{node.name} runs revision {node.runs} unjudged, and has heard nothing beyond its lease")
        under_way = [one for one in look.rollouts if one.phase not in ENDED | NOT_BEGUN]
        if any(one.revision == node.runs and node.name in one.told for one in under_way):
            self._since.pop(node.name, None)
            return found
        since_s = look.at_s - self._since.setdefault(node.name, look.at_s)
        if since_s > (self._told_within_s if node.linked else self._lease_s):
            where = "hears the service" if node.linked else "is cut off, beyond its lease"
            found.append(f"{node.name} runs revision {node.runs}, which no rollout has told it, and {where}")
        return found
