"""The ledger as a file: what a page's filters find, as CSV or JSON, entry by entry.

Guarantee: bounded memory, however many there are. What is wrong with the filters is refused before the first byte; a
failure after it breaks the transfer off, so that no reader takes a part for the whole.
"""

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import chain, islice

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from controlplane.contract.bodies.ledger import LedgerEntry
from controlplane.contract.clock import utc_now
from web.access.sessions import client_of
from web.access.threads import THREADS, on_own_threads
from web.frame.selection import selection_of
from web.ledger.ledger_page import wanted_of

router = APIRouter()

AT_ONCE = 500
COLUMNS = ("id", "time", "actor", "kind", "subject", "message", "evidence")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What makes a spreadsheet compute a cell (CWE-1236): people choose names and reasons."""


@router.get("/ledger.csv")
@on_own_threads
def as_csv(request: Request) -> Response:
    """RFC 4180, UTF-8, a header line; evidence as JSON."""
    return _file(request, csv_chunks, "text/csv; charset=utf-8")


@router.get("/ledger.json")
@on_own_threads
def as_json(request: Request) -> Response:
    """One array, an entry a line."""
    return _file(request, json_chunks, "application/json")


def csv_chunks(entries: Iterator[LedgerEntry]) -> Iterator[bytes]:
    yield _lines([COLUMNS])
    while some := list(islice(entries, AT_ONCE)):
        yield _lines([_cells(entry) for entry in some])


def json_chunks(entries: Iterator[LedgerEntry]) -> Iterator[bytes]:
    before = "["
    while some := list(islice(entries, AT_ONCE)):
        yield (before + ",\n ".join(entry.model_dump_json() for entry in some)).encode()
        before = ",\n "
    yield b"[]\n" if before == "[" else b"]\n"


def _cells(entry: LedgerEntry) -> tuple[str, ...]:
    said = (entry.actor, entry.kind, entry.subject, entry.message)
    plain = (f"'{text}" if text.startswith(FORMULA) else text for text in said)
    return (str(entry.id), entry.time.isoformat(), *plain, json.dumps(entry.evidence, ensure_ascii=False))


def _lines(rows: list[tuple[str, ...]]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue().encode()


def _file(request: Request, chunks: Callable[[Iterator[LedgerEntry]], Iterator[bytes]], media_type: str) -> Response:
    wanted = wanted_of(selection_of(request.query_params, utc_now()))
    entries = client_of(request).every_ledger_entry(**wanted)
    read_ahead = chain([first] if (first := next(entries, None)) else [], entries)
    name = request.url.path.removeprefix("/")
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(_on_own_threads(chunks(read_ahead)), media_type=media_type, headers=headers)


async def _on_own_threads(chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Each chunk asks the API, which the same process answers: see `web.access.threads`."""
    while (chunk := await to_thread.run_sync(partial(next, chunks, None), limiter=THREADS)) is not None:
        yield chunk
