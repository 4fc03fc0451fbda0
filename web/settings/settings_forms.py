"""The forms of settings: each is sent by whoever is signed in, and the API decides whether they may.

Guarantee: a form without this session's token is a 403 and does nothing. A token's secret is in one answer, which no
cache keeps. A token is made by a token: what outlives a session is not made by one, so its form asks for an admin's.
Where the session is a person's, that person answers for it (`owner`, in the ledger too) unless the form names another.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request, Response
from fastapi.responses import RedirectResponse

from controlplane.client import Client
from controlplane.contract.bodies.alerts import Silenced
from controlplane.contract.channels.destination_kinds import DestinationKind
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import Forbidden, TailwrightError, Unauthenticated
from web.access.sessions import holder_of, signed_client_of
from web.access.threads import on_own_threads
from web.frame import row_number
from web.frame.page_document import page_sent
from web.frame.selection import selection_of
from web.settings.changed_destination import SECRETS, changed_destination, replaced_of
from web.settings.form_fields import destination_of, preview_of, problem_of, token_of
from web.settings.routing_fields import silenced_of
from web.settings.settings_page import PAGE, person_of

row_number.register()
router = APIRouter(prefix="/settings")

Field = Annotated[str, Form()]
TAB_OF = dict.fromkeys(("routes", "inhibit-rules", "silences"), "routing")
"""Where forms are sent to whose tab has another name."""


@router.get("/{tab}")
async def to_tab(tab: str) -> Response:
    """Where a form was sent to: its tab."""
    return RedirectResponse(
        f"/settings{selection_of({'tab': TAB_OF.get(tab, tab)}, utc_now()).query()}", status_code=303
    )


@router.post("/tokens")
@on_own_threads
def create_token(
    request: Request,
    name: Field = "",
    scope: Field = "",
    owner: Field = "",
    lasts: Field = "",
    uses: Field = "",
    pools: Field = "",
    roles: Field = "",
    nodes: Field = "",
    by: Field = "",
    form: Field = "",
) -> Response:
    """Make a token with the admin's token `by`; the answer alone has its secret."""
    client = signed_client_of(request, form)
    fields = {"name": name, "scope": scope, "owner": owner, "lasts": lasts}
    fields |= {"uses": uses, "pools": pools, "roles": roles, "nodes": nodes}
    try:
        wanted = token_of({**fields, "owner": owner.strip() or person_of(client) or ""}, utc_now())
        created = holder_of(request, by.strip()).create_token(wanted)
    except TailwrightError as error:
        return refused(request, client, "tokens", error, {**fields, "by": ""}, {"Authorization": "by"})
    return tab_sent(request, client, "tokens", created=created)


@dataclass(frozen=True)
class DestinationFields:
    """The fields of a destination's form, as a dependency reads them. `shown`: those that the form says again."""

    shown: Mapping[str, str]
    hidden: Mapping[str, str]
    act: str

    @property
    def only(self) -> Silenced | None:
        """Raises `BadRequest`."""
        return silenced_of(self.shown["only"], "only") if self.shown["only"].strip() else None

    @property
    def given(self) -> dict[str, str]:
        """What the API is asked with, apart from `only`."""
        return {**{name: text for name, text in self.shown.items() if name != "only"}, **self.hidden}

    @property
    def said(self) -> dict[str, str]:
        return {**self.shown, **dict.fromkeys(self.hidden, "")}


def destination_fields(
    name: Field = "",
    kind: Field = DestinationKind.WEBHOOK.value,
    url: Field = "",
    secret: Field = "",
    login: Field = "",
    recipients: Field = "",
    sender: Field = "",
    callback_secret: Field = "",
    per_minute: Field = "",
    title_template: Field = "",
    text_template: Field = "",
    only: Field = "",
    enabled: Field = "",
    act: Field = "",
) -> DestinationFields:
    shown = {"name": name, "kind": kind, "url": url, "login": login, "recipients": recipients, "sender": sender}
    shown |= {"per_minute": per_minute, "title_template": title_template, "text_template": text_template}
    shown |= {"only": only, "enabled": enabled}
    return DestinationFields(shown, {"secret": secret, "callback_secret": callback_secret}, act)


FormOfDestination = Annotated[DestinationFields, Depends(destination_fields)]


@router.post("/destinations")
@on_own_threads
def create_destination(request: Request, fields: FormOfDestination, form: Field = "") -> Response:
    """Make a destination, or only show what it would be told."""
    client = signed_client_of(request, form)

    def make() -> object:
        given = {name: text for name, text in fields.given.items() if name != "enabled"}
        return client.create_destination(destination_of(given, fields.only))

    return _destination_saved(request, client, fields, make)


@router.post("/destinations/{number:row}")
@on_own_threads
def change_destination(request: Request, number: int, fields: FormOfDestination, form: Field = "") -> Response:
    """Change a destination, or only show what it would be told."""
    client = signed_client_of(request, form)
    changed = changed_destination(client, f"destination/{number}")
    if changed is None:
        raise Forbidden("destinations are changed by admins")

    def change() -> object:
        return client.replace_destination(number, replaced_of(fields.given, fields.only, changed.there))

    return _destination_saved(request, client, fields, change, changed=changed)


def _destination_saved(
    request: Request, client: Client, fields: DestinationFields, save: Callable[[], object], **more: object
) -> Response:
    """The tab again; where something is wrong with the form as it was filled in."""
    try:
        if fields.act == "preview":
            preview = client.preview_destination(preview_of(fields.shown))
            return tab_sent(request, client, "destinations", said=fields.said, preview=preview, **more)
        save()
    except Unauthenticated:
        raise
    except TailwrightError as error:
        renamed = {f"{name}_kept": name for name in SECRETS}
        return refused(request, client, "destinations", error, fields.said, renamed, **more)
    return RedirectResponse("/settings?tab=destinations", status_code=303)


@router.post("/destinations/{number:row}/replay")
@on_own_threads
def replay_dead_letters(request: Request, number: int, form: Field = "") -> Response:
    """Send what was given up once more."""
    client = signed_client_of(request, form)
    return tab_sent(request, client, "destinations", replayed=client.replay_dead_letters(number))


@router.post("/destinations/{number:row}/test")
@on_own_threads
def test_destination(request: Request, number: int, form: Field = "") -> Response:
    """Send a signed test alert, and say what came of it."""
    client = signed_client_of(request, form)
    return tab_sent(request, client, "destinations", tested=(number, client.test_destination(number)))


@router.post("/{tab}/{number:row}/end")
@on_own_threads
def end(request: Request, tab: str, number: int, form: Field = "") -> Response:
    """Revoke a token, end a session or a silence, remove a destination, a route or a rule: the second step's form."""
    client = signed_client_of(request, form)
    calls = {
        "tokens": client.revoke_token,
        "people": client.end_one_session,
        "destinations": client.delete_destination,
        "routes": client.delete_route,
        "inhibit-rules": client.delete_inhibit_rule,
        "silences": client.end_silence,
    }
    query = selection_of({"tab": TAB_OF.get(tab, tab)}, utc_now()).query()
    if tab in calls:
        calls[tab](number)
    return RedirectResponse(f"/settings{query}", status_code=303)


def tab_sent(request: Request, client: Client, tab: str, **more: object) -> Response:
    """A tab of the page, with what its form is told."""
    response = page_sent(request, PAGE, client, selection_of({"tab": tab}, utc_now()), **more)
    response.headers["Cache-Control"] = "no-store"
    return response


def refused(
    request: Request,
    client: Client,
    tab: str,
    error: TailwrightError,
    fields: Mapping[str, str],
    renamed: Mapping[str, str],
    **more: object,
) -> Response:
    """The form again, as it was filled in, with what is wrong at its field."""
    response = tab_sent(request, client, tab, problem=problem_of(error, fields, renamed), said=fields, **more)
    response.status_code = error.status if error.status < 500 else 502
    return response
