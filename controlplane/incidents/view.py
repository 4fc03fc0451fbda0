"""Rows as the API shows them."""

from collections.abc import Sequence
from dataclasses import dataclass

from controlplane.contract.bodies.alerts import Severity
from controlplane.contract.on_call.incidents import Incident, IncidentNote, IncidentState, Route
from controlplane.incidents.tables import IncidentNoteRow, IncidentRow, RouteRow


@dataclass(frozen=True)
class Tally:
    """How many alerts an incident has, how many fire, how many of those a silence holds back, and who judges them."""

    alerts: int = 0
    firing: int = 0
    held: int = 0
    sources: tuple[str, ...] = ()


def incident_view(row: IncidentRow, tally: Tally) -> Incident:
    fields = row.model_dump(exclude={"group_key", "route_id"})
    fields |= {"state": IncidentState(row.state), "severity": Severity(row.severity)}
    silenced = tally.firing > 0 and tally.held == tally.firing
    counted = {"alerts": tally.alerts, "firing": tally.firing, "silenced": silenced}
    return Incident(**fields, **counted, sources=list(tally.sources))


def note_view(row: IncidentNoteRow) -> IncidentNote:
    return IncidentNote.model_validate(row.model_dump())


def route_view(row: RouteRow) -> Route:
    return Route.model_validate(row.model_dump())


def numbers(rows: Sequence[IncidentRow]) -> list[int]:
    return [row.id for row in rows if row.id is not None]
