"""The forms of routes, inhibit rules and silences: each is sent by whoever is signed in; the API decides if they may.

Guarantee: a form without this session's token is a 403 and does nothing.
"""

from collections.abc import Callable, Mapping
from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from controlplane.client import Client
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import TailwrightError, Unauthenticated
from web.access.sessions import signed_client_of
from web.access.threads import on_own_threads
from web.frame import row_number
from web.settings.routing_fields import silenced_of, wanted_inhibit_rule, wanted_route
from web.settings.routing_tab import Editing
from web.settings.settings_forms import refused, tab_sent
from web.settings.wanted_silence import RENAMED, wanted_silence

row_number.register()
router = APIRouter(prefix="/settings")

Field = Annotated[str, Form()]


@router.post("/routes")
@on_own_threads
def create_route(
    request: Request,
    name: Field = "",
    owner: Field = "",
    matchers: Field = "",
    group_by: Field = "",
    position: Field = "",
    form: Field = "",
) -> Response:
    said = {"name": name, "owner": owner, "matchers": matchers, "group_by": group_by, "position": position}
    client, editing = signed_client_of(request, form), Editing("route", None, said)
    return _saved(request, client, editing, lambda fields: client.create_route(wanted_route(fields)))


@router.post("/routes/{number:row}")
@on_own_threads
def update_route(
    request: Request,
    number: int,
    name: Field = "",
    owner: Field = "",
    matchers: Field = "",
    group_by: Field = "",
    position: Field = "",
    form: Field = "",
) -> Response:
    said = {"name": name, "owner": owner, "matchers": matchers, "group_by": group_by, "position": position}
    client, editing = signed_client_of(request, form), Editing("route", number, said)
    return _saved(request, client, editing, lambda fields: client.update_route(number, wanted_route(fields)))


@router.post("/inhibit-rules")
@on_own_threads
def create_inhibit_rule(
    request: Request, name: Field = "", source: Field = "", target: Field = "", equal: Field = "", form: Field = ""
) -> Response:
    said = {"name": name, "source": source, "target": target, "equal": equal}
    client, editing = signed_client_of(request, form), Editing("inhibit-rule", None, said)
    return _saved(request, client, editing, lambda fields: client.create_inhibit_rule(wanted_inhibit_rule(fields)))


@router.post("/inhibit-rules/{number:row}")
@on_own_threads
def update_inhibit_rule(
    request: Request,
    number: int,
    name: Field = "",
    source: Field = "",
    target: Field = "",
    equal: Field = "",
    form: Field = "",
) -> Response:
    said = {"name": name, "source": source, "target": target, "equal": equal}
    client, editing = signed_client_of(request, form), Editing("inhibit-rule", number, said)
    return _saved(
        request, client, editing, lambda fields: client.update_inhibit_rule(number, wanted_inhibit_rule(fields))
    )


@router.post("/silences")
@on_own_threads
def create_silence(
    request: Request, alerts_with: Field = "", lasts: Field = "", reason: Field = "", act: Field = "", form: Field = ""
) -> Response:
    """Hold back all alerts of these labels and patterns; or only show which they are."""
    said = {"alerts_with": alerts_with, "lasts": lasts, "reason": reason}
    client, editing = signed_client_of(request, form), Editing("silence", None, said)

    def previewed(fields: Mapping[str, str]) -> Response:
        held_back = client.silence_preview(silenced_of(fields["alerts_with"], "alerts_with"))
        return tab_sent(request, client, "routing", said=said, editing=editing, held_back=held_back)

    if act == "preview":
        return _saved(request, client, editing, previewed)
    return _saved(request, client, editing, lambda fields: client.create_silence(wanted_silence(fields, utc_now())))


def _saved(request: Request, client: Client, editing: Editing, save: Callable[[Mapping[str, str]], object]) -> Response:
    """The tab again; where something is wrong with the form as it was filled in. `save`: may answer by itself."""
    try:
        made = save(editing.said)
    except Unauthenticated:
        raise
    except TailwrightError as error:
        return refused(request, client, "routing", error, editing.said, RENAMED, editing=editing)
    return made if isinstance(made, Response) else RedirectResponse("/settings?tab=routing", status_code=303)
