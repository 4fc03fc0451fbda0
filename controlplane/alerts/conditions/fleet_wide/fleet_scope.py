"""What a rule on the whole fleet looks at and tells: of thousands of nodes hardly any has anything to it. Pure."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from controlplane.alerts.conditions.finding import Finding, Reading
from controlplane.alerts.conditions.kind import C, Job, Snapshot
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.metrics import NODE


def concerned(job: Job[C], seen: Snapshot, speaks: Callable[[NodeView], object]) -> list[NodeView]:
    """The rule's serving nodes that something `speaks` for, that have an alert, or that the state remembers."""
    known = {row.labels.get(NODE.label) for row in job.open_alerts.values()}
    known |= {*job.state.get("told", ()), *job.state.get("open", ())}
    matter = [node for node in seen.serving if node.node in known or speaks(node)]
    return [node for node in matter if job.rule.pool in (None, node.pool)]


def that_matter(job: Job[C], findings: Sequence[Finding], now: datetime) -> list[Finding]:
    """Those that tell of a breach or of an open alert; and the end of what is open of nodes that are no longer there,
    or serve no longer."""
    is_open = {_same(row.labels): row for row in job.open_alerts.values()}
    if not is_open:
        return [finding for finding in findings if finding.reading is Reading.BREACH]
    there = {_same(finding.labels) for finding in findings}
    kept = [finding for finding in findings if finding.reading is Reading.BREACH or _same(finding.labels) in is_open]
    return kept + [Finding(row.labels, now, Reading.CLEAR) for labels, row in is_open.items() if labels not in there]


def _same(labels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(labels.items())
