"""The ledger and its head over HTTP. It lies beneath auth, which writes to it, so its guarded routes live here."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query

from controlplane.auth import Reader
from controlplane.contract.bodies.ledger import LedgerCheck, LedgerEntry, LedgerHead
from controlplane.contract.bodies.pages import Page
from controlplane.db import SessionDep
from controlplane.db.paging import Cursor, Limit
from controlplane.db.request_parts import Parts
from controlplane.ledger import inspection, sealing, signing
from controlplane.ledger.find_entries import Wanted, search
from controlplane.telemetry.queries.parameters import Start, Time
from controlplane.telemetry.values.timespan import parse_time

router = APIRouter(prefix="/api/v1/ledger", tags=["ledger"])

CHECKED = 1_000
"""Entries that one check looks at: some milliseconds of hashing."""


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


@router.get("/check")
def check_newest(_: Reader, service: Annotated[LedgerParts, Depends(LedgerParts.given)]) -> LedgerCheck:
    """Whether the newest 1,000 entries follow from one another; `tailwright ledger verify` looks at all of them."""
    head, first, wrong = inspection.verify_newest(service.database, CHECKED)
    return LedgerCheck(
        head=signing.signed(head, service.ledger_key),
        first=first,
        checked=head.id - first + 1 if first else 0,
        wrong=None if wrong is None else str(wrong),
    )


@router.get("")
def list_entries(
    session: SessionDep,
    _: Reader,
    limit: Limit = 100,
    cursor: Cursor = None,
    kind: Annotated[
        str | None, Query(description="only of this kind, e.g. `rollout.promoted`, or of all of `rollout`")
    ] = None,
    actor: Annotated[str | None, Query(description="only what this one did: a token's or a person's name")] = None,
    subject: Annotated[str | None, Query(description="only of this thing, e.g. `rollout/3` or `node/gpu-1`")] = None,
    text: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=200,
            description="only with this text in the message, the subject, the actor or the kind; a page looks at "
            "20,000 entries at most, and `next` goes on where it ended",
        ),
    ] = None,
    start: Start = None,
    end: Annotated[Time | None, Query(description="the span's end, RFC 3339; left out: it has none")] = None,
) -> Page[LedgerEntry]:
    """The ledger, newest first."""
    wanted = Wanted(
        kind=kind,
        actor=actor,
        subject=subject,
        text=text,
        start=None if start is None else parse_time(start, "start"),
        end=None if end is None else parse_time(end, "end"),
    )
    return search(session, wanted, before_id=cursor, limit=limit)
