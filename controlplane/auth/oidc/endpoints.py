"""Signing in at the issuer over HTTP: which ways there are, begin, and finish. None of it needs a token.

Work that waits for the issuer has threads of its own: a slow issuer holds up nobody but who signs in.
"""

import logging
from functools import partial

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Request
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select

from controlplane.auth import known_people
from controlplane.auth.browser_address import SeenFrom, browser_address
from controlplane.auth.oidc.group_roles import groups_in
from controlplane.auth.oidc.issuer import Issuer
from controlplane.auth.oidc.sign_in_attempt import Attempt
from controlplane.auth.sign_in_parts import Sign, SignInParts
from controlplane.auth.tables import SignInAttemptRow
from controlplane.auth.token import digest, digests
from controlplane.contract.bodies.access import SessionStarted
from controlplane.contract.bodies.people import Role, SignInBegun, SignInFinish, SignInWays
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import Forbidden, NotFound, SignInRefused, Unauthenticated, Unavailable

logger = logging.getLogger(__name__)
router = APIRouter(prefix="/api/v1/sign-in", tags=["people"])

_threads = CapacityLimiter(4)


@router.get("")
async def sign_in_ways(service: Sign) -> SignInWays:
    """How a browser may be signed in here."""
    issuer = service.issuer
    if issuer is None:
        return SignInWays(token=service.token_sign_in, issuer=None)
    said, registration = issuer.known, issuer.registration
    end = None if said is None else said.end_session_endpoint
    page = None if end is None else registration.sign_out_page(end, service.login_url)
    return SignInWays(token=service.token_sign_in, issuer=registration.issuer, end_session_url=page)


@router.post("/begin", status_code=201, responses=answers(NotFound, Unavailable))
async def begin_sign_in(service: Sign) -> SignInBegun:
    """Begin to sign a browser in at the issuer: send it to `url`, and have it keep `secret`."""
    begin = partial(_issuer(service).begin, service.clock())
    url, attempt = await to_thread.run_sync(begin, limiter=_threads)
    return SignInBegun(url=url, secret=attempt.secret, expires_at=attempt.expires_at)


@router.post("/finish", status_code=201, responses=answers(Unauthenticated, Forbidden, NotFound, Unavailable))
async def finish_sign_in(wanted: SignInFinish, service: Sign, request: Request) -> SessionStarted:
    """Prove who has come back from the issuer; the answer's secret is the session's bearer token."""
    work = partial(_finished, service, _issuer(service), wanted, browser_address(request, service.voucher))
    return await to_thread.run_sync(work, limiter=_threads)


def _issuer(service: SignInParts) -> Issuer:
    if service.issuer is None:
        raise NotFound("people do not sign in at an issuer here: oidc_issuer names none", field="oidc_issuer")
    return service.issuer


def _finished(service: SignInParts, issuer: Issuer, wanted: SignInFinish, address: str | None) -> SessionStarted:
    now = service.clock()
    attempt = Attempt.brought(wanted.secret, wanted.state, now)
    used = digest(attempt.secret)
    with service.database.read_session() as session:
        before = col(SignInAttemptRow.digest).in_(digests(attempt.secret))
        if session.exec(select(SignInAttemptRow).where(before)).first() is not None:
            raise _replayed()
    claims = issuer.claims(attempt, wanted.code, wanted.iss, now)
    who, roles = known_people.somebody_of(claims), issuer.registration.roles
    groups = groups_in(claims, issuer.registration.groups_claim)
    role = roles.of(groups)
    if role is None:
        logger.warning("%r has proven who he is, and is in no group that counts: %r", who.name, groups[:20])
        with service.database.session() as session:
            known_people.shut_out(session, service.keyring, who, now)
        raise Forbidden(
            f"{who.name} is in no group that may use this service. Groups that count are {roles.told()}",
            field=issuer.registration.groups_claim,
        )
    admins = issuer.registration.admins
    if role is Role.ADMIN and admins is not None and not admins.shown_by(claims):
        logger.warning("%r would be an admin, and has signed in without a second factor", who.name)
        raise Forbidden(
            f"{who.name} is in a group of admins, who sign in here with a second factor: the issuer has to say "
            f"{admins.told()}, and says {admins.found(claims)}. Sign in at the issuer with it, then again here",
            field="amr" if admins.methods else "acr",
        )
    row = SignInAttemptRow(digest=used, expires_at=attempt.expires_at)
    try:
        with service.database.session() as session:
            return known_people.start_session(session, who, role, row, now, SeenFrom(service.keyring, address))
    except IntegrityError as error:
        raise _replayed() from error


def _replayed() -> SignInRefused:
    return SignInRefused("this answer of the issuer was used already; begin again", field="state")
