"""POST /v1/history: bundles of packed reports of the past, answered once they are in frames on the disk.

Guarantee: a body over the limit is never held whole, and nothing slow runs on the event loop.
"""

import asyncio
from collections import Counter
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from controlplane.auth import AgentAccess
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import Overloaded, TooLarge, Unavailable, Unsupported
from controlplane.contract.reports.report_bundle import LIMIT_PLAIN, MEDIA_TYPE, PATH
from controlplane.telemetry.folding.bulk_parts import Loaded
from controlplane.telemetry.http.telemetry_parts import Telemetry
from controlplane.telemetry.otlp.bounds import Sender, forbid_wrong_origin
from controlplane.telemetry.reports.stream_identity import Sighting
from controlplane.telemetry.values.refusal import Refusals

router = APIRouter()

TIMEOUT_S = 300.0
BODY_TIMEOUT_S = 120.0
_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {MEDIA_TYPE: {"schema": {"type": "string", "format": "binary"}}}}
}


class HistoryAnswer(BaseModel):
    """What became of a bundle's points."""

    accepted: int = Field(description="points that are in frames now")
    repeated: int = Field(description="points that were counted before")
    refused: int = Field(description="points that cannot be kept")
    reasons: dict[str, int] = Field(description="why points were refused, with how many each concerns")
    known: int = Field(
        description="parts that lie too far behind the newest of their stream to be told from repeats: not counted now"
    )
    highest: dict[str, int] = Field(
        description="newest ordinal of each stream of which something was known already, by the stream in hexadecimal"
    )


@router.post(PATH, openapi_extra=_BODY, responses=answers(Overloaded))
async def load_history(principal: AgentAccess, request: Request, service: Telemetry) -> HistoryAnswer:
    """Load a bundle of packed reports (`controlplane/contract/reports/report_bundle.py` has the layout), zstd or gzip
    or plain.

    200 once they are in frames, at every level; 429 and 503 when to send again. A part counts once, however often it is
    sent.
    """
    stated = request.headers.get("content-type", "")
    if stated.partition(";")[0].strip().lower() != MEDIA_TYPE:
        raise Unsupported(f"Content-Type {stated[:80]!r} is not {MEDIA_TYPE}", field="Content-Type")
    body = await _body(request)
    encoding = request.headers.get("content-encoding", "")
    loading = service.telemetry.submit_bundle(body, encoding=encoding, sender=Sender(principal.node, principal.pool))
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return _answer(await asyncio.shield(asyncio.wrap_future(loading)))
    except TimeoutError:
        raise Unavailable("the bundle was not loaded in time; send it again, it will be recognised") from None


async def _body(request: Request) -> bytes:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in request.stream():
                body += part
                if len(body) > LIMIT_PLAIN:
                    raise TooLarge(f"body: over {LIMIT_PLAIN} bytes; send smaller bundles", field="body")
    except TimeoutError:
        raise Unavailable(f"body: not here within {BODY_TIMEOUT_S:.0f} s; send it again") from None
    return bytes(body)


def _answer(loaded: Loaded) -> HistoryAnswer:
    """Raises `Forbidden` where everything was of a node that the token is not bound to."""
    refusals = Refusals()
    points: Counter[str] = Counter()
    highest: dict[str, int] = {}
    for part in loaded.parts:
        refusals.merge(part.entry.refusals)
        points["accepted"] += part.entry.accepted
        points["repeated"] += part.entry.repeated
        points["known"] += part.seen.sighting is Sighting.TOO_OLD
        if part.seen.sighting is not Sighting.NEW:
            stream = part.identity.stream.hex()
            highest[stream] = max(highest.get(stream, 0), part.seen.high)
    if not points.total():
        forbid_wrong_origin(refusals)
    return HistoryAnswer(
        accepted=points["accepted"],
        repeated=points["repeated"],
        refused=refusals.count,
        reasons=dict(refusals.messages.most_common(10)),
        known=points["known"],
        highest=highest,
    )
