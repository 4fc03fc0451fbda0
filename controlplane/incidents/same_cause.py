"""Whether an alert is of the same cause as an open incident, and of which (alert grouping, event correlation). Pure.

Guarantees: an alert joins one incident at most; never one of another route, or one with another value of a label that
its route groups by; the answer does not depend on the order in which incidents are looked at; what an alert is joined
for is told in words.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from controlplane.contract.bodies.alerts import OURS, Alert, Severity
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.metrics import E2E, TTFT

NEAR = timedelta(minutes=5)
"""Onsets so near to each other are taken for one: a detector finds an onset to within some minutes."""
APART = frozenset({"rollout_waits"})
"""Kinds that tell what a person is wanted for: nothing is wrong with the pool, and what is has another cause."""
SUMS = frozenset({TTFT.short, E2E.short})
"""Metrics that are sums of stages: an alert of one and an alert of its stage tell the same thing."""


@dataclass(frozen=True)
class Sign:
    """Of an alert what tells its cause. `ended`: None while it fires. `foreign`: another system judges it."""

    alert_id: int
    fingerprint: str
    kind: str
    pool: str
    severity: Severity
    started: datetime
    ended: datetime | None = None
    metric: str = ""
    stage: str = ""
    node: str = ""
    revision: int | None = None
    title: str = ""
    foreign: bool = False

    @property
    def measures(self) -> frozenset[str]:
        """The metric that is slow, and the stage that explains it."""
        return frozenset(filter(None, (self.metric, self.stage)))


class Grouped:
    """An open incident, or one resolved a moment ago, as a new alert sees it. `key`: values of its route's labels.

    Of alerts that are alike in all but their time two suffice, that which lasts longest and that which began last: so
    that a flood of alerts of one cause costs each new one of them no more than the first.
    """

    def __init__(
        self, incident_id: int, route: int | None, key: Mapping[str, str], signs: Iterable[Sign], is_open: bool = True
    ) -> None:
        self.incident_id, self.route, self.key, self.is_open = incident_id, route, key, is_open
        self._of_fingerprint: dict[str, int] = {}
        self._lasting: dict[tuple[object, ...], Sign] = {}
        self._latest: dict[tuple[object, ...], Sign] = {}
        for sign in signs:
            self.add(sign)

    def add(self, sign: Sign) -> None:
        """One more alert of it."""
        seen = self._of_fingerprint.get(sign.fingerprint, 0)
        self._of_fingerprint[sign.fingerprint] = max(seen, sign.alert_id)
        alike = (sign.kind, sign.pool, sign.metric, sign.stage, sign.node, sign.revision, sign.foreign)
        self._lasting[alike] = max(self._lasting.get(alike, sign), sign, key=_lasts)
        self._latest[alike] = max(self._latest.get(alike, sign), sign, key=lambda one: (one.started, -one.alert_id))

    def same(self, fingerprint: str) -> int | None:
        """The latest alert of this fingerprint that it has."""
        return self._of_fingerprint.get(fingerprint)

    @property
    def signs(self) -> Iterator[Sign]:
        """Those that suffice."""
        for alike, lasting in self._lasting.items():
            yield lasting
            if self._latest[alike] is not lasting:
                yield self._latest[alike]


def _lasts(sign: Sign) -> tuple[bool, datetime, int]:
    return sign.ended is None, sign.ended or sign.started, -sign.alert_id


@dataclass(frozen=True)
class Joining:
    """Which incident, and why."""

    incident_id: int
    why: str
    strength: int


def sign_of(alert: Alert) -> Sign:
    """What an alert's labels and its diagnosis say of its cause."""
    found = None if alert.diagnosis is None else {"stage": alert.diagnosis.stage, "causes": alert.diagnosis.causes}
    told = Told(alert.id, alert.fingerprint, alert.source, alert.rule, alert.severity.value, alert.summary)
    return sign_told(told, alert.started_at, alert.resolved_at, alert.labels, found)


@dataclass(frozen=True)
class Told:
    """Who an alert is, as its row has it."""

    alert_id: int
    fingerprint: str
    source: str
    rule: str
    severity: str
    summary: str


def sign_told(
    told: Told,
    started: datetime,
    ended: datetime | None,
    labels: Mapping[str, str],
    diagnosis: Mapping[str, Any] | None,
) -> Sign:
    """As `sign_of`, of a row's values: those of many alerts are not worth a model each."""
    causes = (diagnosis or {}).get("causes") or [{}]
    first = causes[0]
    changed = first.get("cause") == CauseKind.CONFIG_CHANGE
    foreign = told.source != OURS
    return Sign(
        alert_id=told.alert_id,
        fingerprint=told.fingerprint,
        kind=f"{told.source}: {told.rule}" if foreign else labels.get("kind", ""),
        pool=labels.get("pool", ""),
        severity=Severity(told.severity),
        started=started,
        ended=ended,
        metric="" if foreign else labels.get("metric", ""),
        stage=(diagnosis or {}).get("stage") or "",
        node=labels.get("node") or str(first.get("node") or ""),
        revision=first.get("revision") if changed else None,
        title=told.summary,
        foreign=foreign,
    )


def joining(sign: Sign, route: int | None, key: Mapping[str, str], incidents: Iterable[Grouped]) -> Joining | None:
    """The incident that the alert belongs to; None: it is of a cause of its own."""
    found = [
        Joining(incident.incident_id, *told)
        for incident in incidents
        if incident.route == route and incident.key == key
        if (told := _why(sign, incident)) is not None
    ]
    return max(found, key=lambda one: (one.strength, one.incident_id), default=None)


def _why(sign: Sign, incident: Grouped) -> tuple[str, int] | None:
    """The strongest reason, with its strength."""
    same = incident.same(sign.fingerprint)
    if same is not None:
        return f"alert {same} fired again", _SAME
    if not incident.is_open:
        return None  # What is over is opened again by the same alert alone.
    told = [reason for other in incident.signs if (reason := _related(sign, other)) is not None]
    return max(told, key=lambda one: (one[1], one[0]), default=None)


_SAME, _REVISION, _STAGE, _NODES, _ONSET = 5, 4, 3, 2, 1


def _related(sign: Sign, other: Sign) -> tuple[str, int] | None:
    """Why two alerts are of one cause, the strongest reason there is; None: nothing says so."""
    if APART & {sign.kind, other.kind}:
        return None
    if sign.revision is not None and sign.revision == other.revision and sign.pool == other.pool:
        return f"revision {sign.revision} is the likeliest cause of both, as of alert {other.alert_id}", _REVISION
    foreign = sign.foreign or other.foreign
    if not _overlap(sign, other) or sign.pool != other.pool:
        return None
    if foreign and sign.node and sign.node == other.node:
        return f"it is on node {sign.node}, as alert {other.alert_id}", _NODES
    if foreign and not sign.pool:
        return None  # Of another system, and of no pool: nothing says that they have to do with each other.
    if shared := _shared_stage(sign, other):
        return f"{shared}, as in alert {other.alert_id}", _STAGE
    if sign.kind == other.kind and sign.metric == other.metric:
        return f"another place of the same: {_place(sign)} beside {_place(other)}", _NODES
    if abs(sign.started - other.started) <= NEAR:
        return f"it began with alert {other.alert_id} in the same pool", _ONSET
    return None


def _shared_stage(sign: Sign, other: Sign) -> str:
    """In words what both are slow in: a stage that explains either, or the same metric; "" for nothing."""
    shared = sign.measures & other.measures
    explaining = shared & {sign.stage, other.stage}
    if explaining:
        return f"{min(explaining)} explains it"
    return f"it is {min(shared)}" if shared else ""


def _overlap(one: Sign, other: Sign) -> bool:
    """Whether both lasted at one time, or the one began shortly after the other's end."""
    first, second = sorted((one, other), key=lambda sign: sign.started)
    return first.ended is None or second.started <= first.ended + NEAR


def _place(sign: Sign) -> str:
    return f"node {sign.node}" if sign.node else f"pool {sign.pool}" if sign.pool else "the fleet"


def worst(severities: Iterable[Severity]) -> Severity:
    """A page where any of them pages."""
    return Severity.PAGE if Severity.PAGE in set(severities) else Severity.TICKET


def leading(signs: Sequence[Sign]) -> Sign:
    """The alert that tells most: one that pages, one of our own, one of many nodes over one node, a sum over its stage,
    the first."""
    return min(
        signs,
        key=lambda sign: (
            sign.severity is not Severity.PAGE,
            sign.foreign,
            bool(sign.node),
            sign.metric not in SUMS,
            sign.started,
            sign.alert_id,
        ),
    )
