"""What the rollout machine reads and what it answers: facts, state, actions, decision. No behaviour."""

from dataclasses import dataclass
from datetime import datetime

from controlplane.contract.bodies.rollouts import RolloutCreate, RolloutPhase, Verdict
from controlplane.contract.changes.findings import Finding
from controlplane.rollouts.patience import LIVE_TIMEOUT_S


@dataclass(frozen=True)
class NodeFact:
    """One serving node of the pool as the registry sees it now."""

    node: str
    connected: bool = True
    healthy: bool = True
    runs_new: bool = False  # Its engine, read back, runs the rollout's revision.
    runs_previous: bool = False
    error: str | None = None  # Its agent could not apply what it should run now.
    health_detail: str = ""
    group: str = ""  # The value of the label that waves go by; empty: it has none, or they go by none.
    may_be_canary: bool = True  # The rollout's selector matches it.
    lost_s: float = 0.0  # How long it has been disconnected, or connected without running the new revision.


@dataclass(frozen=True)
class Gate:
    """Whether the hooks that confirm let it go on. unasked: those that have not been asked yet, by number."""

    waits: str | None = None  # Why it waits; None: for no hook.
    back: str | None = None  # Why it goes back, or ends.
    unasked: tuple[int, ...] = ()


OPEN = Gate()


@dataclass(frozen=True)
class Facts:
    nodes: tuple[NodeFact, ...]  # By name.
    judged: Verdict | None = None  # The judge's verdict so far, of the canary or of the wave that is watched.
    harmless: bool = True  # Nothing that was judged leans to harm.
    decides: bool = False  # More of the same traffic would give a verdict within the longest time.
    closed: str | None = None  # Why no stage may begin now: a freeze window, or the pool's hours.
    findings: tuple[Finding, ...] = ()  # What each node says of the revision, while it is validated.
    unheard: tuple[str, ...] = ()  # Connected nodes that have not said what they run, while it is validated.
    gate: Gate = OPEN  # What the hooks answer that the pool asks where the rollout is now.
    compares: bool = True  # Latencies are compared at all; without it a wave is watched for losses and limits alone.


@dataclass(frozen=True)
class State:
    """What a rollout remembers from tick to tick."""

    phase: RolloutPhase
    spec: RolloutCreate
    verdict: Verdict | None = None
    previous_revision: int | None = None
    canary_nodes: tuple[str, ...] = ()
    told_nodes: tuple[str, ...] = ()  # Nodes that were told to run the new revision, canary first.
    step_since: datetime | None = None  # When this phase, or this wave of the promotion, began.
    message: str = ""  # What the decision before said.
    resumes: RolloutPhase | None = None  # Where a paused one goes on.
    away_s: float = 0.0  # How much of that time no controller was there: it does not count towards any time-out.

    @property
    def is_wave(self) -> bool:
        """Whether nodes have been told beside the canary."""
        return self.told_nodes != self.canary_nodes

    @property
    def apply_timeout_s(self) -> float:
        """How long a wave may take; the store has put a number in place of null when the rollout was made."""
        wanted_s = self.spec.apply_timeout_s
        return LIVE_TIMEOUT_S if wanted_s is None else wanted_s


@dataclass(frozen=True)
class SetOverride:
    """Give these nodes this revision."""

    nodes: tuple[str, ...]
    revision: int


@dataclass(frozen=True)
class SetPoolRevision:
    """Make this revision the pool's production one."""

    revision: int


@dataclass(frozen=True)
class ClearOverrides:
    """Let these nodes follow their pool again."""

    nodes: tuple[str, ...]


Action = SetOverride | SetPoolRevision | ClearOverrides


@dataclass(frozen=True)
class Decision:
    """The next phase and what has to be done for it. `told_nodes` and `canary_nodes` replace the state's."""

    phase: RolloutPhase
    message: str
    verdict: Verdict | None = None
    actions: tuple[Action, ...] = ()
    canary_nodes: tuple[str, ...] = ()
    told_nodes: tuple[str, ...] = ()
    resumes: RolloutPhase | None = None
    findings: tuple[Finding, ...] = ()  # What validation has found, kept as evidence.
