"""People and sessions over HTTP: who was seen (scope admin), which sessions are open, and an end to one.

An admin sees and ends every session; everybody else those of the same token or person.
"""

from fastapi import APIRouter

from controlplane import ledger
from controlplane.auth import browser_sessions, known_people
from controlplane.auth.guard import Admin, Holder
from controlplane.auth.personal import own_data
from controlplane.auth.principal import Principal
from controlplane.auth.sign_in_parts import Sign
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.pages import Page
from controlplane.contract.bodies.people import Person, PersonalData, SessionView
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import NotFound
from controlplane.db import SessionDep
from controlplane.db.ids import PathId
from controlplane.db.paging import Cursor, Limit, page_of
from controlplane.db.request_parts import Basis

router = APIRouter(prefix="/api/v1", tags=["people"])


@router.get("/people")
def list_people(
    session: SessionDep, _: Admin, service: Sign, limit: Limit = 100, cursor: Cursor = None
) -> Page[Person]:
    """People who have signed in at the issuer, the newest first, as of their last sign-in."""
    found = known_people.listing(session, service.keyring, service.clock(), before_id=cursor, limit=limit + 1)
    return page_of(found, limit)


@router.get("/people/{person_id:int}/data", responses=answers(NotFound))
def read_personal_data(
    person_id: PathId, session: SessionDep, principal: Holder, service: Sign, limit: Limit = 100, cursor: Cursor = None
) -> PersonalData:
    """All that is kept of a person, who may ask for it, as an admin may. `cursor` goes on with older entries."""
    own_data.check_may_see(principal, person_id)
    return own_data.data_of(session, service.keyring, person_id, service.clock(), before_id=cursor, limit=limit)


@router.delete("/people/{person_id:int}", status_code=204)
def forget_person(person_id: PathId, session: SessionDep, principal: Holder, service: Basis) -> None:
    """Remove what is kept of a person, who may ask for it, as an admin may, and end the sessions; the ledger keeps
    its entries until they are archived."""
    own_data.check_may_see(principal, person_id)
    own_data.forget(session, person_id, actor=principal.actor, now=service.clock())


@router.get("/sessions")
def list_sessions(
    session: SessionDep, principal: Holder, service: Sign, limit: Limit = 100, cursor: Cursor = None
) -> Page[SessionView]:
    """Open sessions of browsers, newest first: an admin's answer has everybody's, any other's its own."""
    found = browser_sessions.listing(
        session,
        service.keyring,
        service.clock(),
        before_id=cursor,
        limit=limit + 1,
        of=_visible(principal),
        asks=principal.session_id,
    )
    return page_of(found, limit)


@router.get("/sessions/self", responses=answers(NotFound))
def read_own_session(session: SessionDep, principal: Holder, service: Sign) -> SessionView:
    """The session that asks: whose it is, and what it may do."""
    number = principal.session_id
    if number is None:
        raise NotFound("a token has no session; GET /api/v1/tokens/self tells of it", field="Authorization")
    return browser_sessions.view(session, service.keyring, number, service.clock(), of=None, asks=number)


@router.delete("/sessions/{session_id:int}", status_code=204)
def end_one_session(session_id: PathId, session: SessionDep, principal: Holder, service: Sign) -> None:
    """End a session: it is refused from now on, by every replica."""
    now = service.clock()
    ended = browser_sessions.view(
        session, service.keyring, session_id, now, of=_visible(principal), asks=principal.session_id
    )
    browser_sessions.end(session, session_id)
    message = f"session {session_id} of {ended.name} was ended"
    ledger.append(session, now, principal.actor, "session.ended", ended.subject, message, session_id=session_id)


def _visible(principal: Principal) -> Principal | None:
    """Whose sessions the principal may see; None: everybody's."""
    return None if principal.scope is Scope.ADMIN else principal
