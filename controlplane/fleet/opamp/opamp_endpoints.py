"""POST /v1/opamp: OpAMP over HTTP, by which an agent polls, for tokens of scope agent."""

from fastapi import APIRouter, Request, Response

from controlplane.auth import AgentAccess
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import Conflict, TooLarge, Unsupported
from controlplane.contract.reports.media_types import PROTOBUF
from controlplane.db.request_parts import address_of
from controlplane.fleet.opamp import wire
from controlplane.fleet.opamp.hub import Fleet, FleetHub
from controlplane.fleet.opamp.session import Answer, Asked, Came
from controlplane.fleet.opamp.turnstile import Place
from controlplane.fleet.opamp.wire import AgentReport

router = APIRouter(tags=["opamp"])

_BODY = {
    "requestBody": {
        "required": True,
        "content": {PROTOBUF: {"schema": {"type": "string", "format": "binary"}}},
    }
}


class OpampAnswer(Response):
    """A ServerToAgent message."""

    media_type = PROTOBUF


@router.post("/v1/opamp", response_class=OpampAnswer, openapi_extra=_BODY, responses=answers(Conflict))
async def opamp_http(request: Request, principal: AgentAccess, service: Fleet) -> Response:
    """One OpAMP exchange: AgentToServer in, ServerToAgent out, both as protobuf; gzip is accepted."""
    content_type = request.headers.get("Content-Type", "").partition(";")[0].strip()
    if content_type != PROTOBUF:
        raise Unsupported(f"Content-Type: wants {PROTOBUF}, got {content_type!r}", field="Content-Type")
    message = wire.unpack(await _body(request), request.headers.get("Content-Encoding", "").strip().lower())
    report = wire.parse(message)
    asked = Asked(principal, report, service.clock(), Came(origin=address_of(request)))
    answered = await (service.fleet.reports.do(asked) if report.description is None else _anew(service.fleet, asked))
    if answered.node is not None:
        service.fleet.left_out.note(answered.node, report.problems)
    if answered.rival_of is not None:
        service.fleet.contention.refused(answered.rival_of)
    return OpampAnswer(wire.encode(answered.reply).SerializeToString())


async def _anew(hub: FleetHub, asked: Asked) -> Answer:
    """What an agent is answered that comes anew, or has to say all that there is."""
    place = hub.come()
    if not isinstance(place, Place):
        return Answer(_later(asked.report, place))
    try:
        await place.reached.wait()
        return await hub.reports.do(asked)
    finally:
        place.leave()


def _later(report: AgentReport, later_s: float) -> wire.Reply:
    told = "many agents have come at once: come again"
    return wire.Reply(report.instance_uid, error=told, retry_after_s=later_s)


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > wire.MESSAGE_LIMIT_BYTES:
            raise TooLarge(f"body: an OpAMP message is at most {wire.MESSAGE_LIMIT_BYTES} bytes", field="body")
    return bytes(body)
