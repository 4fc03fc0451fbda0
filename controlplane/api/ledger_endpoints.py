"""The ledger and its head over HTTP. It lies beneath auth, which writes to it, so its guarded routes live here."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from controlplane.auth import Reader
from controlplane.contract.bodies.ledger import LedgerEntry, LedgerHead
from controlplane.contract.bodies.pages import Page
from controlplane.db import SessionDep
from controlplane.db.paging import Cursor, Limit, page_of
from controlplane.db.request_parts import Parts
from controlplane.ledger import sealing, signing
from controlplane.ledger.store import entries

router = APIRouter(prefix="/api/v1/ledger", tags=["ledger"])


@dataclass(frozen=True, kw_only=True)
class LedgerParts(Parts):
    """What signs the head."""

    ledger_key: bytes


@router.get("/head")
def ledger_head(
    session: SessionDep, _: Reader, service: Annotated[LedgerParts, Depends(LedgerParts.given)]
) -> LedgerHead:
    """The newest entry's number and hash, signed; `tailwright ledger verify --head` compares with it later."""
    return signing.signed(sealing.head(session.connection()), service.ledger_key)


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
