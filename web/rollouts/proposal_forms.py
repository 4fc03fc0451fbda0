"""The form of a new rollout: checked while it is filled in, and proposed by who is signed in.

Guarantee: a form without this session's token is a 403 and does nothing; a check does nothing at all. What is refused
comes back as it was filled in, with what is wrong at its field. Sent twice, it is proposed once.
"""

from collections.abc import Mapping

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from controlplane.contract.clock import utc_now
from controlplane.contract.errors import TailwrightError, Unauthenticated
from web.access.sessions import signed_client_of
from web.access.threads import on_own_threads
from web.frame.page_document import page_sent
from web.frame.rendering import rendered
from web.frame.selection import selection_of
from web.rollouts.guard_forms import Said
from web.rollouts.proposal_fields import FIELDS, filled, problems_of
from web.rollouts.proposal_page import PAGE, form_context

router = APIRouter()

BEGIN = "begin"


def said_of(sent: Mapping[str, str]) -> dict[str, str]:
    return {name: sent.get(name, "") for name in FIELDS}


@router.post("/parts/rollout_new/checked")
@on_own_threads
def check(request: Request, sent: Said) -> Response:
    """What the service says to the form as it is now, and each field's note."""
    client = signed_client_of(request, sent.get("form", ""))
    selection = selection_of({}, utc_now())
    return rendered(request, "parts/rollout_checked.html", selection=selection, **form_context(client, said_of(sent)))


@router.post("/rollouts/new")
@on_own_threads
def propose(request: Request, sent: Said) -> Response:
    """Propose it, and begin it where the button says so; or only look."""
    client, said = signed_client_of(request, sent.get("form", "")), said_of(sent)
    read, status = filled(said), 200
    problems = dict(read.problems)
    if sent.get("act") != "check" and read.proposal is not None:
        wanted = read.proposal.model_copy(update={"start": sent.get("act") == BEGIN})
        try:
            made = client.create_rollout(wanted, key=sent.get("key") or None)
            return RedirectResponse(f"/rollouts/{made.id}", status_code=303)
        except Unauthenticated:
            raise
        except TailwrightError as error:
            problems, status = problems_of(error), error.status if error.status < 500 else 502
    elif sent.get("act") != "check":
        status = 400
    told = form_context(client, said)
    told["problems"] = {**told["problems"], **problems}
    response: Response = page_sent(request, PAGE, client, selection_of({}, utc_now()), **told)
    response.status_code = status
    return response
