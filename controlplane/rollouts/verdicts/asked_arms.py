"""Two arms as somebody names them, found in what nodes have reported: which nodes, and since when the canary runs.

Guarantee: the answer follows from the question and from telemetry alone, so that the same question means the same arms
and the same start each time it is asked. A node is in one arm only, unless another label tells the two apart.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.contract.changes.verdicts import ArmAsked, VerdictAsked
from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import MODEL, NODE, POOL, REGION, REVISION, ROLE, TENANT, WINDOW_S
from controlplane.rollouts.judging.arms import Arm
from controlplane.telemetry import Question, Span, TelemetryReader

OTHERS = (POOL.label, MODEL.label, TENANT.label, REGION.label)
"""Labels that an arm may have beside its nodes and its revision."""

LONGEST_S = 2 * 3600.0
"""Of a canary that is judged, and of a time before that it is compared with: all of it is replayed at each question,
and whoever asks waits for it."""
SILENCE_S = 600.0
"""A canary that was silent for so long has begun anew."""


@dataclass(frozen=True)
class Arms:
    """nodes may be none: nothing has been reported yet."""

    control: Arm
    canary: Arm

    @property
    def shared(self) -> bool:
        """Whether nodes are in both, told apart by another label."""
        return bool(set(self.control.nodes) & set(self.canary.nodes))


def started_at(telemetry: TelemetryReader, asked: VerdictAsked, now: datetime) -> datetime | None:
    """When the canary began: as is said, or after its last silence; None where it has reported nothing.

    Raises `BadRequest` for one that has reported without a pause for as long as is looked at.
    """
    if asked.start is not None:
        return asked.start
    end = min(now, asked.end or now)
    span = Span(end - timedelta(seconds=LONGEST_S + SILENCE_S), end)
    question = Question(asked.metrics[0], span, (NODE.label,), _where(asked.canary), 12 * WINDOW_S)
    mine = [one for one in telemetry.counts(question) if _is_canarys(asked, one.labels[NODE.label])]
    times = sorted({time for one in mine for time, _ in one.steps})
    if not times:
        return None
    began = times[-1]
    for time in reversed(times):
        if (began - time).total_seconds() > SILENCE_S:
            return began
        began = time
    if (began - span.start).total_seconds() < SILENCE_S:
        raise BadRequest(
            f"start: the canary has reported for {LONGEST_S / 3600.0:g} h without a pause; say when it began",
            field="start",
        )
    return began


def arms_of(telemetry: TelemetryReader, asked: VerdictAsked, span: Span) -> Arms:
    """The nodes of both arms that reported in the span. Raises `BadRequest` where nothing tells the arms apart."""
    told_apart = _apart(asked) or asked.control.node != asked.canary.node
    if not told_apart:
        raise BadRequest("canary: nothing tells the arms apart; give each its nodes or its revision", field="canary")

    def nodes(arm: ArmAsked, belongs: Callable[[VerdictAsked, str], bool]) -> tuple[str, ...]:
        series = telemetry.counts(Question(asked.metrics[0], span, (NODE.label,), _where(arm)))
        return tuple(sorted(one.labels[NODE.label] for one in series if belongs(asked, one.labels[NODE.label])))

    return Arms(
        _arm(asked.control, nodes(asked.control, _is_controls)), _arm(asked.canary, nodes(asked.canary, _is_canarys))
    )


def _is_controls(asked: VerdictAsked, node: str) -> bool:
    if asked.control.node or _apart(asked):
        return _named(asked.control.node, node)
    return not _named(asked.canary.node, node)


def _is_canarys(asked: VerdictAsked, node: str) -> bool:
    """A pattern may hold the control's: "chat-*" is also "chat-primary-1"."""
    taken = bool(asked.control.node) and not _apart(asked) and _named(asked.control.node, node)
    return not taken and _named(asked.canary.node, node)


def _named(patterns: list[str], node: str) -> bool:
    return not patterns or any(matches(pattern, node) for pattern in patterns)


def matches(pattern: str, name: str) -> bool:
    """Whether a pattern whose `*` stand for any text is of this whole name. Each part is looked for once, from left to
    right: however many stars somebody sends, it is done at once."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    place, end = len(first), len(name) - len(rest[-1])
    if place > end or not name.startswith(first) or not name.endswith(rest[-1]):
        return False
    for part in rest[:-1]:
        place = name.find(part, place, end)
        if place < 0:
            return False
        place += len(part)
    return True


def _arm(asked: ArmAsked, nodes: tuple[str, ...]) -> Arm:
    where = {label: tuple(values) for label, values in _where(asked).items() if label in OTHERS}
    return Arm(nodes, frozenset(asked.revision) or None, where=where)


def _where(asked: ArmAsked) -> dict[str, list[str]]:
    """What is asked of telemetry. Whoever names no nodes means those that serve: a trial node's are experiments."""
    labels = (*OTHERS, REVISION.label)
    found = {label: values for label in labels if (values := getattr(asked, label))}
    return found if asked.node else {**found, ROLE.label: [""]}


def _apart(asked: VerdictAsked) -> bool:
    """Whether a label other than the node tells the arms apart, or time does."""
    labels: Mapping[str, list[str]] = _where(asked.control)
    other = _where(asked.canary)
    return asked.control_start is not None or any(
        label in other and not set(values) & set(other[label]) for label, values in labels.items()
    )
