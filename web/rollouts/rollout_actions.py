"""What people do with a rollout on its page: each button is a form, and the API decides whether they may.

Guarantee: a form without this session's token is a 403 and does nothing; what is refused is told on the rollout's own
page, beside what it was refused for.
"""

from typing import Annotated

from fastapi import APIRouter, Form, Request, Response
from fastapi.responses import RedirectResponse

from controlplane.contract.bodies.rollouts import RolloutAction
from controlplane.contract.clock import utc_now
from controlplane.contract.errors import Conflict, Forbidden, NotFound, PreconditionFailed
from web.access.sessions import signed_client_of
from web.access.threads import on_own_threads
from web.frame import row_number
from web.frame.page_document import page_sent
from web.frame.selection import selection_of
from web.rollouts.rollout_page import PAGE
from web.settings.form_fields import Problem

row_number.register()
router = APIRouter()


@router.post("/rollouts/{number:row}/{action}")
@on_own_threads
def act(
    request: Request,
    number: int,
    action: str,
    form: Annotated[str, Form()] = "",
    step: Annotated[str, Form()] = "",
) -> Response:
    """Do something with a rollout, where it is still as the page showed it (`step`), and show what follows from it."""
    client = signed_client_of(request, form)
    if action not in set(RolloutAction):
        raise NotFound(f"no action {action!r} on a rollout", field="action")
    seen = f'"{number}-{step}"' if step.isdecimal() else None
    try:
        done = client.change_rollout(number, RolloutAction(action), if_match=seen)
    except (Conflict, Forbidden, PreconditionFailed) as error:
        selection = selection_of({"rollout": str(number)}, utc_now())
        response: Response = page_sent(request, PAGE, client, selection, problem=Problem(error.message))
        response.status_code = error.status
        return response
    return RedirectResponse(f"/rollouts/{done.id}", status_code=303)
