"""One incident: what is wrong and why, what can be done now, the metric before and during, and what has happened."""

import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby

from controlplane.client import Client
from controlplane.contract.bodies.alerts import OURS, Alert
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.bodies.remedies import RemedyState, RemedyStep
from controlplane.contract.bodies.rollouts import RolloutPhase
from controlplane.contract.metrics import DECODE, E2E, PREFILL, QUEUE
from controlplane.contract.on_call.incidents import Incident, IncidentDetail, IncidentState, TimelineEntry
from web.access.viewer import may_operate
from web.drawing.line_chart import Line, Mark, drawn
from web.drawing.stacks import stacked_bars
from web.drawing.waterfall import Request
from web.explore.decomposition import mean_parts
from web.frame.page import Context, Page, Part, number
from web.frame.selection import Selection
from web.incidents.incident_span import Span, span_of
from web.incidents.usual_range import asked_span, told, usual_of, watched_q
from web.pages.chart_parts import BEHIND, api_call, marks, quantile_lines, shown
from web.pages.requests_page import address_of
from web.settings.wanted_silence import LENGTHS, USUAL

SHOWN = (0.95, 0.99)
SLOWEST = 8
MOST_IN_A_ROW = 6
"""So many alerts, or entries of one kind, stand under each other; of more the first, the others one click away."""
PARTS = (QUEUE.short, PREFILL.short, DECODE.short)
"""What is told of each of them beside the metric that they are slow by."""
EARLY = timedelta(minutes=1)
"""The requests that an onset was seen by were complete before it."""
OPEN = (IncidentState.OPEN, IncidentState.ACKNOWLEDGED)


def whole(client: Client, selection: Selection) -> Context:
    """What the page's own forms need; raises `NotFound` for an incident that there is not."""
    found = client.incident(number(selection, "incident"))
    span = span_of(found, selection)
    return {
        "incident": found,
        "is_open": found.state in OPEN,
        "may_operate": may_operate(client),
        "take_backs": take_backs(client, found),
        "explore": span.selection.query(),
        "silenceable": [one.alert for one in found.members if is_silenceable(one.alert)],
        "others": others_open(client, found),
        "said": {**USUAL, "alerts_with": shared_labels(found)},
        "lengths": LENGTHS,
        "chart": CHART,
        "study_key": secrets.token_urlsafe(16),
        "cause_kinds": [kind.value for kind in CauseKind],
        "likeliest": found.causes[0].get("cause") if found.causes else CauseKind.UNKNOWN.value,
    }


def others_open(client: Client, incident: IncidentDetail) -> list[Incident]:
    """Those that it may take in, of its own pool first."""
    found = [one for one in client.incidents(open=True) if one.id != incident.id]
    return sorted(found, key=lambda one: (one.pool != incident.pool, -one.id))


def shared_labels(incident: IncidentDetail) -> str:
    """The labels in which its alerts that fire agree, a line each: what a silence by pattern begins with."""
    firing = [one.alert.labels for one in incident.members if is_silenceable(one.alert)]
    shared = set.intersection(*(set(labels.items()) for labels in firing)) if firing else set()
    return "\n".join(f"{name}={value}" for name, value in sorted(shared))


def is_silenceable(alert: Alert) -> bool:
    """Nobody is told here of those of other systems, nor any more of those that are over."""
    return alert.resolved_at is None and alert.source == OURS


def state(client: Client, selection: Selection) -> Context:
    found = client.incident(number(selection, "incident"))
    explore = span_of(found, selection).selection.query()
    return {"incident": found, "now": selection.now, "explore": explore, "most": MOST_IN_A_ROW}


def history(client: Client, selection: Selection) -> Context:
    return {"runs": runs_of(client.incident(number(selection, "incident")).timeline)}


def runs_of(entries: Sequence[TimelineEntry]) -> list[list[TimelineEntry]]:
    """The entries in their order; those of one kind that the service wrote under each other, where they are many,
    together. What people wrote stands apart."""
    found: list[list[TimelineEntry]] = []
    for (_, actor), alike in groupby(entries, lambda entry: (entry.kind, entry.actor)):
        run = list(alike)
        found += [run] if actor == OURS and len(run) > MOST_IN_A_ROW else [[one] for one in run]
    return found


def chart(client: Client, selection: Selection) -> Context:
    """The metric's tail before and during, its usual range, what it was judged against, and what happened;
    parts/line_chart.html."""
    found = client.incident(number(selection, "incident"))
    span = span_of(found, selection)
    of, q = span.selection, watched_q(span.lead)
    asked = {"step": of.step, **of.span, **span.labels}
    answer = client.quantiles(span.metric, SHOWN, **asked)
    start_s, end_s = answer.start.timestamp(), answer.end.timestamp()
    lines = [line for line in quantile_lines(answer) if line.points]
    if span.threshold_s is not None:
        steps = range(int(start_s), int(end_s), of.step_s)
        lines.insert(0, Line("judged against", [(float(at), span.threshold_s) for at in steps]))
    onset = Mark(found.onset_at.timestamp(), "alert", "onset", found.title)
    begin, end = asked_span(span.lead, span.before, of.step_s)
    usual = usual_of(q, values_over(client, span, q, begin, end))
    band = None if usual is None else usual.band
    drawing = drawn(lines, start_s, end_s, of.step_s, [onset, *marks(client, found.pool or None)], band=band)
    if usual is not None:
        since = [value for _, value in values_over(client, span, q, *span.during)]
        drawing = replace(drawing, sentence=told(usual, since))
    count = sum(series.count for series in answer.series)
    call = api_call("quantiles", {"metric": span.metric, "q": SHOWN, **asked})
    return shown(drawing, call, metric=span.metric, count=count) | {"title": f"{span.metric}, before and during"}


def values_over(client: Client, span: Span, q: float, start: datetime, end: datetime) -> list[tuple[float, float]]:
    """One quantile in the chart's steps."""
    answer = client.quantiles(span.metric, (q,), step=span.selection.step, start=start, end=end, **span.labels)
    steps = [at for series in answer.series for at in series.points or []]
    return [(at.time.timestamp(), value) for at in steps for value in at.quantiles.values()]


def stacks(client: Client, selection: Selection) -> Context:
    """Where the mean request's time went before the onset, and since."""
    span = span_of(client.incident(number(selection, "incident")), selection)
    sides = {"before": span.before, "during": span.during}
    means = {
        name: mean_parts(client.shares(start=start, end=end, **span.labels)) for name, (start, end) in sides.items()
    }
    bars = [Request(name, parts) for name, parts in means.items() if parts]
    start, end = span.during
    call = api_call("shares", {"start": start, "end": end, **span.labels})
    return {"stacks": stacked_bars(bars) if len(bars) == 2 else None, "call": call}


def slowest(client: Client, selection: Selection) -> Context:
    """The requests behind it: the slowest since the onset."""
    span = span_of(client.incident(number(selection, "incident")), selection)
    metric = BEHIND.get(span.metric, E2E.short)
    onset, end = span.during
    found = client.requests(
        **span.labels,
        metric=metric,
        timed_by="completion",
        order="slowest",
        limit=SLOWEST,
        start=onset - EARLY,
        end=end,
    )
    rows = [(one, address_of(one, span.selection)) for one in found.items]
    columns = list(dict.fromkeys((metric, *PARTS)))
    return {"rows": rows, "columns": columns, "all": span.selection.query(metric=metric, order="slowest")}


def take_backs(client: Client, incident: IncidentDetail) -> list[RemedyStep]:
    """Those whose rollouts were proposed and wait for somebody, each rollout once."""
    offered = {
        step.rollout_id: step
        for member in incident.members
        for step in member.alert.remedies
        if step.rollout_id is not None and step.state is RemedyState.OFFERED
    }
    return [step for number, step in offered.items() if client.rollout(number).phase is RolloutPhase.PROPOSED]


CHART = Part("incident_chart", chart, 10, "line_chart", "The metric, before and during")
PAGE = Page(
    "incident",
    "/incidents/{incident}",
    "Incident",
    (
        Part("incident", state),
        CHART,
        Part("incident_stacks", stacks, 15),
        Part("incident_requests", slowest, 15),
        Part("timeline", history),
    ),
    section="incidents",
    bar=False,
    whole=whole,
    scripts=("charts.js",),
)
