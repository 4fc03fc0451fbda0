"""GET /api/v1/ledger. The ledger lies beneath auth, which writes to it, so its one guarded route lives here."""

from typing import Annotated

from fastapi import APIRouter, Query

from controlplane.auth import Reader
from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.bodies.pages import Page
from controlplane.db import SessionDep
from controlplane.db.paging import Cursor, Limit, page_of
from controlplane.ledger.store import entries

router = APIRouter(prefix="/api/v1/ledger", tags=["ledger"])


@router.get("")
def list_entries(
    session: SessionDep,
    _: Reader,
    limit: Limit = 100,
    cursor: Cursor = None,
    kind: Annotated[str | None, Query(description="only of this kind, e.g. `rollout.promoted`")] = None,
    subject: Annotated[str | None, Query(description="only of this thing, e.g. `rollout/3` or `node/gpu-1`")] = None,
) -> Page[LedgerEntry]:
    """The ledger, newest first."""
    return page_of(entries(session, before_id=cursor, limit=limit + 1, kind=kind, subject=subject), limit)
