"""The forms of policies, freeze windows and pins: each is sent by whoever is signed in; the API decides if they may.

Guarantee: a form without this session's token is a 403 and does nothing; what is refused comes back as it was filled
in, with what is wrong at its field.
"""

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import RedirectResponse

from controlplane.client import Client
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import NotFound, TailwrightError, Unauthenticated
from web.access.sessions import signed_client_of
from web.access.threads import on_own_threads
from web.frame import row_number
from web.frame.form_said import form_of
from web.frame.page_document import page_sent
from web.frame.selection import selection_of
from web.rollouts.guard_fields import FIELDS, RENAMED, wanted_freeze, wanted_pin, wanted_policy
from web.rollouts.guards_page import PAGE, Editing, form_context
from web.rollouts.holds import PAGE_PATH
from web.settings.form_fields import problem_of

row_number.register()
router = APIRouter(prefix=PAGE_PATH)

MOST_FIELDS = 40


Said = Annotated[dict[str, str], Depends(form_of(MOST_FIELDS))]


@router.post("/{kind}")
@on_own_threads
def save(request: Request, kind: str, filled: Said) -> Response:
    """Make a window or a pin, or a pool's policy, which replaces the one that is there."""
    client = signed_client_of(request, filled.get("form", ""))
    if kind not in FIELDS:
        raise NotFound(f"no {kind[:40]!r} to make", field="kind")
    said = {name: filled.get(name, "") for name in FIELDS[kind]}
    try:
        _make(client, kind, said)
    except Unauthenticated:
        raise
    except TailwrightError as error:
        told = form_context(client, Editing(kind, said)) | {"problem": problem_of(error, said, RENAMED)}
        response: Response = page_sent(request, PAGE, client, selection_of({}, utc_now()), **told)
        response.status_code = error.status if error.status < 500 else 502
        return response
    return RedirectResponse(PAGE_PATH, status_code=303)


def _make(client: Client, kind: str, said: dict[str, str]) -> None:
    match kind:
        case "policy":
            client.set_rollout_policy(wanted_policy(said))
        case "freeze":
            client.create_freeze(wanted_freeze(said, utc_now()))
        case "pin":
            client.create_pin(wanted_pin(said))


@router.post("/{kind}/{number:row}/end")
@on_own_threads
def end(request: Request, kind: str, number: int, form: Annotated[str, Form()] = "") -> Response:
    """Remove a policy, lift a window before its end, or unpin: the second step's form."""
    client = signed_client_of(request, form)
    calls = {"policy": client.remove_rollout_policy, "freeze": client.lift_freeze, "pin": client.remove_pin}
    if kind not in calls:
        raise NotFound(f"no {kind[:40]!r} to end", field="kind")
    calls[kind](number)
    return RedirectResponse(PAGE_PATH, status_code=303)
