"""What an incident's drawings are of: its time and what was before, its pool, and the metric that got slow. Pure.

Guarantee: the span begins before the onset and ends after it, whatever moments the incident has.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.metrics import BY_SHORT, E2E, POOL, MetricKind
from controlplane.contract.on_call.incidents import IncidentDetail
from web.frame.selection import SERVING, Selection
from web.frame.time_range import LONGEST, NOW, TimeRange

BEFORE = timedelta(minutes=30)
"""What was usual is shown for so long before the onset ..."""
AFTER = timedelta(minutes=10)
"""... and what came after the end for so long."""
LEAST = timedelta(minutes=1)


@dataclass(frozen=True)
class Span:
    """`selection` covers before and during, in the incident's pool; `before` and `during` are its two sides. `lead`:
    the alert that is drawn, of the metric where one is of it, else the one that tells most."""

    selection: Selection
    before: tuple[datetime, datetime]
    during: tuple[datetime, datetime]
    metric: str
    lead: Alert | None

    @property
    def labels(self) -> dict[str, Any]:
        pool = self.selection.pool
        return dict(SERVING) if pool is None else {**SERVING, POOL.label: pool}

    @property
    def threshold_s(self) -> float | None:
        """What the metric was judged against, where its alert says so."""
        lead = self.lead
        return lead.threshold if lead is not None and lead.labels.get("metric") == self.metric else None


def span_of(incident: IncidentDetail, selection: Selection) -> Span:
    """The incident's own span, whatever the page's address says."""
    onset, now = incident.onset_at, selection.now
    ended = incident.resolved_at
    end = min(now, ended + AFTER) if ended is not None else now
    end = max(end, onset + LEAST)
    start = max(onset - BEFORE, end - LONGEST + LEAST)
    goes_on = end == now
    told = TimeRange(_word(start), NOW if goes_on else _word(end))
    filters = {POOL.label: incident.pool} if incident.pool else {}
    metric = metric_of(incident)
    alerts = [member.alert for member in incident.members]
    lead = next((one for one in alerts if one.labels.get("metric") == metric), next(iter(alerts), None))
    own = replace(selection, range=told, range_said=True, filters=filters, compare=None, own={})
    during = (onset, max(min(ended or end, end), onset + LEAST))
    return Span(own, (onset - BEFORE, onset), during, metric, lead)


def metric_of(incident: IncidentDetail) -> str:
    """That of the alert that tells most and is of a latency; end to end where none is."""
    named = (member.alert.labels.get("metric", "") for member in incident.members)
    known = (name for name in named if (found := BY_SHORT.get(name)) and found.kind is MetricKind.HISTOGRAM)
    return next(known, E2E.short)


def _word(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"
