"""An incident's post-mortem as Markdown: what is known, and headings for what only people know. Pure.

Guarantee: what people or engines wrote is text: it can make neither markup nor a further row of a table.
"""

from collections.abc import Iterator
from datetime import datetime

from controlplane.contract.bodies.alerts import OURS, Alert, StageShift
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.duration_text import duration_text
from controlplane.contract.on_call.incidents import IncidentDetail
from controlplane.contract.on_call.metric_text import metric_title
from controlplane.contract.share_text import share_text
from controlplane.incidents.markdown import plain, table
from controlplane.incidents.moved_quantile import moved_quantile

TO_FILL_IN = "_To be written._"


def post_mortem(incident: IncidentDetail, link: str) -> str:
    """The document; `link` is the incident's page."""
    sections = (_head(incident, link), _impact(incident), _causes(incident), _timeline(incident))
    lines = [line for section in (*sections, _alerts(incident), _notes(incident), _ahead()) for line in section]
    return "\n".join(lines) + "\n"


def _head(incident: IncidentDetail, link: str) -> Iterator[str]:
    yield f"# Post-mortem: incident {incident.id}"
    yield ""
    yield plain(incident.title)
    yield ""
    yield from table(("", ""), ((name, value) for name, value in _facts(incident, link) if value))


def _facts(incident: IncidentDetail, link: str) -> Iterator[tuple[str, str]]:
    yield "State", incident.state.value
    yield "Severity", incident.severity.value
    yield "Pool", plain(incident.pool)
    yield "Owner", plain(incident.owner or "")
    yield "Onset", _moment(incident.onset_at)
    yield "Opened", _moment(incident.opened_at)
    yield "Acknowledged", _by(incident.acknowledged_at, incident.acknowledged_by)
    yield "Resolved", _by(incident.resolved_at, incident.resolved_by)
    detected = min([one.fired_at for one in _alerts_of(incident) if one.fired_at] + [incident.opened_at])
    yield "Time to detect", _between(incident.onset_at, detected)
    yield "Time to acknowledge", _between(detected, incident.acknowledged_at)
    yield "Time to resolve", _between(incident.onset_at, incident.resolved_at)
    yield "Page", f"<{link}>"


def _impact(incident: IncidentDetail) -> Iterator[str]:
    yield from ("", "## Impact", "")
    shifts = [alert for alert in _alerts_of(incident) if alert.evidence.get("before_s") and alert.value is not None]
    for alert in shifts:
        before, now = duration_text(alert.evidence["before_s"]), duration_text(alert.value or 0.0)
        yield f"- {plain(metric_title(alert.labels.get('metric', alert.rule)))} went from {before} to {now}."
    if not shifts:
        yield TO_FILL_IN
    stages = next((alert.diagnosis.stages for alert in _alerts_of(incident) if alert.diagnosis), [])
    if stages:
        yield from ("", "### Where the time went", "")
        head = ("Stage", "Mean before", "Mean during", "p99 before", "p99 during", "Share of the increase")
        yield from table(head, (_stage_row(stage) for stage in stages))


def _stage_row(stage: StageShift) -> tuple[str, ...]:
    times = (stage.before_mean_s, stage.during_mean_s, stage.before_p99_s, stage.during_p99_s)
    words = ("-" if value is None else duration_text(value) for value in times)
    return plain(stage.stage), *words, share_text(stage.share_of_increase)


def _causes(incident: IncidentDetail) -> Iterator[str]:
    yield from ("", "## Causes, the likeliest first", "")
    for place, cause in enumerate(incident.causes, 1):
        yield f"{place}. {plain(str(cause.get('message') or cause.get('cause')))}"
    if not incident.causes:
        yield TO_FILL_IN
    if (said := incident.confirmed_cause) is not None:
        words = "none of these" if said.cause is CauseKind.UNKNOWN else said.cause.value.replace("_", " ")
        yield from (
            "",
            f"Confirmed by {plain(said.by)}: {words}" + (f", {plain(said.comment)}" if said.comment else ""),
        )
    yield from moved_quantile(incident.attribution)


def _timeline(incident: IncidentDetail) -> Iterator[str]:
    yield from ("", "## Timeline (UTC)", "")
    rows = (
        (_moment(entry.time), entry.kind.value.replace("_", " "), plain(entry.actor), plain(entry.text))
        for entry in incident.timeline
    )
    yield from table(("Time", "What", "Who", "Words"), rows)


def _alerts(incident: IncidentDetail) -> Iterator[str]:
    yield from ("", "## Alerts", "")
    rows = ((str(one.alert.id), _rule(one.alert), plain(one.alert.summary), plain(one.why)) for one in incident.members)
    yield from table(("Alert", "Rule", "What", "Why here"), rows)


def _rule(alert: Alert) -> str:
    """With its system and where that shows it, where it is not one of our own."""
    if alert.source == OURS:
        return plain(alert.rule)
    link = f", <{alert.link}>" if alert.link else ""
    return f"{plain(alert.rule)} ({plain(alert.source)}{link})"


def _notes(incident: IncidentDetail) -> Iterator[str]:
    if incident.notes:
        yield from ("", "## Notes", "")
        for note in incident.notes:
            yield f"- {_moment(note.time)}, {plain(note.author)}: {plain(note.text)}"


def _ahead() -> Iterator[str]:
    for title in ("What went well", "What went badly", "Actions"):
        yield from ("", f"## {title}", "", TO_FILL_IN)


def _alerts_of(incident: IncidentDetail) -> list[Alert]:
    return [one.alert for one in incident.members]


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def _by(moment: datetime | None, who: str | None) -> str:
    return "" if moment is None else _moment(moment) + (f", by {plain(who)}" if who else "")


def _between(start: datetime, end: datetime | None) -> str:
    return "" if end is None else duration_text(max(0.0, (end - start).total_seconds()))
