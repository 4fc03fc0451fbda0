"""The form of an alert rule: tried over the past before it is saved, made, changed and removed by who is signed in.

Guarantee: a form without this session's token is a 403 and does nothing; what is refused comes back as it was filled
in, with what is wrong at its field.
"""

from collections.abc import Mapping
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import RedirectResponse

from controlplane.contract.clock import utc_now
from controlplane.contract.errors import BadRequest, TailwrightError, Unauthenticated
from web.access.sessions import signed_client_of
from web.access.threads import on_own_threads
from web.alerting.alerting_page import PAGE, form_context, found_rule, problem_of
from web.alerting.rule_fields import fields_of, usual_said, wanted_rule
from web.alerting.rule_trial import USUAL
from web.frame.form_said import form_of
from web.frame.page_document import page_sent
from web.frame.selection import LONGEST_WORD, selection_of

router = APIRouter(prefix="/alerting/rules")

MOST_FIELDS = 40


Said = Annotated[dict[str, str], Depends(form_of(MOST_FIELDS))]


@router.post("/{rule}")
@on_own_threads
def send(request: Request, rule: str, filled: Said) -> Response:
    """Try, save or remove it, as the button says."""
    client = signed_client_of(request, filled.get("form", ""))
    before, kind = found_rule(client, rule), filled.get("kind", "")
    fields_of(kind)
    said = {name: filled.get(name, "") for name in usual_said(kind)}
    over = filled.get("over") or USUAL
    try:
        if filled.get("act") == "try":
            return RedirectResponse(_trial_address(rule, said, over), status_code=303)
        if filled.get("act") == "remove" and before is not None:
            client.delete_alert_rule(before.id)
        elif before is None:
            client.create_alert_rule(wanted_rule(said))
        else:
            client.update_alert_rule(before.id, wanted_rule(said, before.remedy))
    except Unauthenticated:
        raise
    except TailwrightError as error:
        told = {**form_context(client, before, said), "over": over, "problem": problem_of(error, said)}
        response: Response = page_sent(request, PAGE, client, selection_of({"rule": rule}, utc_now()), **told)
        response.status_code = error.status if error.status < 500 else 502
        return response
    return RedirectResponse("/alerting", status_code=303)


def _trial_address(rule: str, said: Mapping[str, str], over: str) -> str:
    """The form as it is filled in, and the past that it is tried over: all of it in the address.

    Raises `BadRequest` where a field says more than an address holds.
    """
    for name, text in said.items():
        if len(text) > LONGEST_WORD:
            mend = "save the rule switched off and try that"
            raise BadRequest(f"{name}: at most {LONGEST_WORD} characters can be tried here; {mend}", field=name)
    filled = {name: text for name, text in said.items() if text}
    return f"/alerting/rules/{rule}?{urlencode({**filled, 'over': over})}"
