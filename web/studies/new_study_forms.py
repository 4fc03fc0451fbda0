"""The form of a new study: looked at while it is filled in, and sent by who is signed in.

Guarantee: a form without this session's token is a 403 and does nothing; a look does nothing at all. What is refused
comes back as it was filled in, with what is wrong at its field. Sent twice, it is started once.
"""

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from controlplane.contract.clock import utc_now
from controlplane.contract.errors import TailwrightError, Unauthenticated
from web.access.sessions import signed_client_of
from web.access.threads import on_own_threads
from web.frame.form_said import form_of
from web.frame.page_document import page_sent
from web.frame.rendering import rendered
from web.frame.selection import selection_of
from web.studies.new_study_fields import FIELDS
from web.studies.new_study_page import PAGE, form_context
from web.studies.wanted_study import problems_of, wanted_study

router = APIRouter()

MOST_FIELDS = 64
CHECK = "check"


Said = Annotated[dict[str, str], Depends(form_of(MOST_FIELDS))]


def said_of(sent: Mapping[str, str]) -> dict[str, str]:
    return {name: sent.get(name, "") for name in FIELDS}


@router.post("/parts/study_new/checked")
@on_own_threads
def check(request: Request, sent: Said) -> Response:
    """What the study would do as the form is now, and each field's note."""
    client = signed_client_of(request, sent.get("form", ""))
    selection = selection_of({}, utc_now())
    return rendered(request, "parts/study_checked.html", selection=selection, **form_context(client, said_of(sent)))


@router.post("/studies/new")
@on_own_threads
def start(request: Request, sent: Said) -> Response:
    """Queue it, and go to its page; or only look."""
    client, said = signed_client_of(request, sent.get("form", "")), said_of(sent)
    read, status = wanted_study(said), 200
    problems = read.problems
    if sent.get("act") != CHECK and read.study is not None:
        try:
            made = client.create_study(read.study, key=sent.get("key") or None)
            return RedirectResponse(f"/studies/{made.id}", status_code=303)
        except Unauthenticated:
            raise
        except TailwrightError as error:
            problems, status = problems_of(error), error.status if error.status < 500 else 502
    elif sent.get("act") != CHECK:
        status = 400
    told = form_context(client, said, refused=problems)
    response: Response = page_sent(request, PAGE, client, selection_of({}, utc_now()), **told)
    response.status_code = status
    return response
