"""What the incident's page lets people do: each form is sent by who is signed in; the API decides if they may.

Guarantee: a form without this session's token is a 403 and does nothing.
"""

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from controlplane.client import Client
from controlplane.contract.bodies.alerts import SilenceCreate
from controlplane.contract.bodies.cause_kinds import CauseKind
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import BadRequest, TailwrightError, Unauthenticated
from controlplane.contract.on_call.incidents import IncidentDetail, IncidentSplit
from web.access.sessions import client_of, signed_client_of
from web.access.threads import on_own_threads
from web.frame import row_number
from web.frame.page_document import page_sent
from web.frame.selection import selection_of
from web.incidents.incident_page import PAGE, is_silenceable
from web.incidents.incident_span import metric_of
from web.settings.form_fields import problem_of, said_of
from web.settings.routing_fields import lines_of, silenced_of
from web.settings.wanted_silence import RENAMED, end_of, wanted_silence, why_of

row_number.register()
router = APIRouter(prefix="/incidents")

Field = Annotated[str, Form()]
OBJECTIVES = frozenset({"ttft", "tpot", "itl", "e2e"})


@router.get("/{number:row}/post-mortem.md")
@on_own_threads
def post_mortem(request: Request, number: int) -> Response:
    """The Markdown document as a file."""
    headers = {"Content-Disposition": f'attachment; filename="incident-{number}.md"', "Cache-Control": "no-store"}
    text = client_of(request).post_mortem(number)
    return Response(text, media_type="text/markdown; charset=utf-8", headers=headers)


@router.post("/{number:row}/acknowledge")
@on_own_threads
def acknowledge(request: Request, number: int, form: Field = "") -> Response:
    signed_client_of(request, form).acknowledge_incident(number)
    return _back(number)


@router.post("/{number:row}/notes")
@on_own_threads
def add_note(request: Request, number: int, text: Field = "", form: Field = "") -> Response:
    client = signed_client_of(request, form)
    client.add_incident_note(number, said_of(text, "text", "the note says nothing"))
    return _back(number)


@router.post("/{number:row}/resolve")
@on_own_threads
def resolve(request: Request, number: int, reason: Field = "", form: Field = "") -> Response:
    client = signed_client_of(request, form)
    client.resolve_incident(number, said_of(reason, "reason", "say why it is closed"))
    return _back(number)


@router.post("/{number:row}/cause")
@on_own_threads
def confirm_cause(request: Request, number: int, cause: Field = "", comment: Field = "", form: Field = "") -> Response:
    client = signed_client_of(request, form)
    if cause not in {kind.value for kind in CauseKind}:
        raise BadRequest("cause: wants one of the kinds that the page offers", field="cause")
    client.confirm_cause(number, cause, comment.strip())
    return _back(number)


@router.post("/{number:row}/split")
@on_own_threads
def split(request: Request, number: int, alert: Annotated[int, Form()], form: Field = "") -> Response:
    """One alert is of another cause; the answer leads to its own incident."""
    made = signed_client_of(request, form).split_incident(number, IncidentSplit(alert_ids=[alert]))
    return _back(made.id)


@router.post("/{number:row}/merge")
@on_own_threads
def merge(request: Request, number: int, other: Annotated[int, Form()], form: Field = "") -> Response:
    """Another incident was of the same cause: this one takes it in."""
    signed_client_of(request, form).merge_incidents(number, other)
    return _back(number)


@router.post("/{number:row}/silence")
@on_own_threads
def silence(request: Request, number: int, lasts: Field = "", reason: Field = "", form: Field = "") -> Response:
    """Hold back what its alerts that fire would tell."""
    client = signed_client_of(request, form)
    ends_at, why = end_of(lasts, utc_now()), why_of(reason)
    for labels in firing_labels(client.incident(number)):
        client.create_silence(SilenceCreate(matchers=labels, ends_at=ends_at, comment=why))
    client.add_incident_note(number, f"Silenced for {lasts}: {why}")
    return _back(number)


@router.get("/{number:row}/silence-like")
async def to_incident(number: int) -> Response:
    """Where its form was sent to: the incident."""
    return _back(number)


@router.post("/{number:row}/silence-like")
@on_own_threads
def silence_like(
    request: Request,
    number: int,
    alerts_with: Field = "",
    lasts: Field = "",
    reason: Field = "",
    act: Field = "",
    form: Field = "",
) -> Response:
    """Hold back all alerts of these labels and patterns, whatever incident they are of; or only show which they are."""
    client = signed_client_of(request, form)
    said = {"alerts_with": alerts_with, "lasts": lasts, "reason": reason}
    try:
        if act == "preview":
            held_back = client.silence_preview(silenced_of(alerts_with, "alerts_with"))
            return _page(request, client, number, said=said, held_back=held_back)
        wanted = wanted_silence(said, utc_now())
        client.create_silence(wanted)
    except Unauthenticated:
        raise
    except TailwrightError as error:
        response = _page(request, client, number, said=said, problem=problem_of(error, said, RENAMED))
        response.status_code = error.status if error.status < 500 else 502
        return response
    matched = ", ".join(lines_of(wanted).splitlines())
    client.add_incident_note(number, f"Silenced for {lasts}, {matched}: {wanted.comment}")
    return _back(number)


@router.post("/{number:row}/study")
@on_own_threads
def study(request: Request, number: int, key: Field = "", form: Field = "") -> Response:
    """Look for a better configuration of its pool, by the metric that got slow. Pressed twice, it is one study."""
    client = signed_client_of(request, form)
    made = started_study(client, client.incident(number), key or None)
    return RedirectResponse(f"/studies/{made}", status_code=303)


def firing_labels(incident: IncidentDetail) -> list[dict[str, str]]:
    """Of its alerts that fire, each once. Nobody is told here of those of other systems."""
    found: list[dict[str, str]] = []
    for alert in (member.alert for member in incident.members if is_silenceable(member.alert)):
        if alert.labels not in found:
            found.append(alert.labels)
    return found


def started_study(client: Client, incident: IncidentDetail, key: str | None = None) -> int:
    metric = metric_of(incident)
    wanted = {"pool": incident.pool} | ({"objective": metric} if metric in OBJECTIVES else {})
    made = client.create_study(wanted, key=key)
    note = f"Study {made.id} was started."
    if note not in (one.text for one in incident.notes):
        client.add_incident_note(incident.id, note)
    return made.id


def _page(request: Request, client: Client, number: int, **more: object) -> Response:
    """The incident's page, with what its form is told."""
    return page_sent(request, PAGE, client, selection_of({"incident": str(number)}, utc_now()), **more)


def _back(number: int) -> Response:
    return RedirectResponse(f"/incidents/{number}", status_code=303)
