"""One job judged, and what it makes of its alerts: the same for what is happening now and for a past that is tried."""

from datetime import datetime
from typing import Any, NamedTuple

from controlplane.alerts.conditions.fleet_wide.fleet_scope import that_matter
from controlplane.alerts.conditions.kind import Findings, Job, Scope, Snapshot
from controlplane.alerts.lives.lifecycle import Draft, follow


class Judged(NamedTuple):
    """What a kind found, and the lives of the job's alerts after it."""

    findings: Findings
    drafts: list[Draft]


def judged(job: Job[Any], seen: Snapshot, until: datetime, now: datetime) -> Judged | None:
    """Up to `until`; None where nothing is new or nothing could be read."""
    of_fleet = job.kind.scope is Scope.FLEET
    if not of_fleet and job.position is not None and job.position >= until:
        return None
    findings = job.kind.judge(job, seen, until)
    if findings is None:
        return None
    found = that_matter(job, findings.found, now) if of_fleet else findings.found
    return Judged(findings, follow(job.rule.id, job.open_alerts, found))
