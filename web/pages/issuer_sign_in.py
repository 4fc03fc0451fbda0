"""Signing in at the issuer: the browser is sent there, and what it comes back with is brought to the API.

Guarantee: an answer of the issuer counts only in the browser that began: a cookie of its own holds the attempt's secret
meanwhile, and is gone once it was used.
"""

import logging
from urllib.parse import quote, unquote

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from controlplane.contract.bodies.people import SignInFinish
from controlplane.contract.errors import Forbidden, SignInRefused, TailwrightError, Unauthenticated, Unavailable
from web.access.sessions import api_of, is_secure, sign_in
from web.access.threads import on_own_threads
from web.pages.refusals import local
from web.pages.sign_in import sign_in_form

logger = logging.getLogger(__name__)
router = APIRouter()

ATTEMPT_AGE_S = 600
LONGEST_ANSWER = 4096


@router.get("/login/issuer")
@on_own_threads
def to_issuer(request: Request, next: str = "/") -> Response:
    """Send the browser to the issuer's page."""
    try:
        begun = api_of(request).of_browser(request).begin_sign_in()
    except Unavailable as error:
        return sign_in_form(request, next, error=error)
    response = RedirectResponse(begun.url, status_code=303)
    secure = is_secure(request)
    # Lax: it has to come along when the issuer's page leads back.
    response.set_cookie(
        _cookie(secure),
        f"{begun.secret}.{quote(local(next), safe='')}",
        max_age=ATTEMPT_AGE_S,
        httponly=True,
        samesite="lax",
        secure=secure,
        path="/",
    )
    return response


@router.get("/login/callback")
@on_own_threads
def from_issuer(request: Request) -> Response:
    """Where the issuer leads the browser back to."""
    said = request.query_params
    secure = is_secure(request)
    secret, _, wanted = request.cookies.get(_cookie(secure), "").partition(".")
    next = local(unquote(wanted) or "/")
    try:
        if "error" in said:
            raise SignInRefused(f"the issuer says: {said.get('error_description') or said['error']}"[:300])
        if any(len(said.get(name, "")) > LONGEST_ANSWER for name in ("code", "state", "iss")) or not said.get("code"):
            raise SignInRefused("this is no answer of the issuer; begin again")
        finish = SignInFinish.model_construct(
            secret=secret[:128], state=said.get("state", "")[:512], code=said["code"], iss=said.get("iss")
        )
        started = api_of(request).of_browser(request).finish_sign_in(finish)
    except (Unauthenticated, Forbidden, Unavailable) as error:
        response = _refused(request, next, error)
    else:
        response = RedirectResponse(next, status_code=303)
        sign_in(request, response, started.secret)
    response.delete_cookie(_cookie(secure), path="/", secure=secure, httponly=True, samesite="lax")
    return response


def _refused(request: Request, next: str, error: TailwrightError) -> Response:
    logger.info("somebody was not signed in: %s", error.message)
    return sign_in_form(request, next, error=error)


def _cookie(secure: bool) -> str:
    return "__Host-tailwright_attempt" if secure else "tailwright_attempt"
