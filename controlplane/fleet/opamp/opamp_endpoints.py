"""/v1/opamp: OpAMP over HTTP (POST) and over WebSocket, for tokens of scope agent.

Over HTTP an agent polls; over WebSocket the service pushes a changed configuration at once.
"""

import logging
from dataclasses import replace

import anyio
from anyio import to_thread
from fastapi import APIRouter, Request, Response, WebSocket
from fastapi.responses import JSONResponse
from starlette.types import Message
from starlette.websockets import WebSocketDisconnect

from controlplane.auth import AgentAccess
from controlplane.auth.guard import holder_of
from controlplane.auth.principal import check_scope
from controlplane.contract.bodies.access import Scope
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import BadRequest, Conflict, TailwrightError, TooLarge, Unsupported
from controlplane.contract.reports.media_types import PROTOBUF
from controlplane.db.database import Database
from controlplane.db.request_parts import address_of
from controlplane.fleet import store as fleet
from controlplane.fleet.opamp import wire
from controlplane.fleet.opamp.hub import AgentConnection, Close, Fleet, FleetHub, FleetParts
from controlplane.fleet.opamp.quiet_beats import heard_of
from controlplane.fleet.opamp.session import Answer, Asked, Came
from controlplane.serving.limits import Refused

logger = logging.getLogger(__name__)
router = APIRouter(tags=["opamp"])

RETRY_AFTER_S = 5.0
_BODY = {
    "requestBody": {
        "required": True,
        "content": {PROTOBUF: {"schema": {"type": "string", "format": "binary"}}},
    }
}
NOT_BINARY, INVALID, TOO_LARGE = 1003, 1007, 1009  # RFC 6455, section 7.4.1.


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
    if report.description is not None and (later_s := service.fleet.come_again_s()) is not None:
        return OpampAnswer(wire.encode(_later(report, later_s)).SerializeToString())
    asked = Asked(principal, report, service.clock(), Came(origin=address_of(request)))
    answered = await service.fleet.reports.do(asked)
    if answered.node is not None:
        service.fleet.left_out.note(answered.node, report.problems)
    if answered.rival_of is not None:
        service.fleet.contention.refused(answered.rival_of)
    return OpampAnswer(wire.encode(answered.reply).SerializeToString())


async def _body(request: Request) -> bytes:
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > wire.MESSAGE_LIMIT_BYTES:
            raise TooLarge(f"body: an OpAMP message is at most {wire.MESSAGE_LIMIT_BYTES} bytes", field="body")
    return bytes(body)


@router.websocket("/v1/opamp")
async def opamp_socket(socket: WebSocket, service: Fleet) -> None:
    """The same exchange for as long as the connection holds; a changed configuration is pushed."""
    hub, database = service.fleet, service.database
    try:
        principal = await holder_of(service, socket, socket.headers.get("Authorization", ""))
        service.token_uses.note(principal.token_id, principal.node)
        check_scope(principal, Scope.AGENT)
    except TailwrightError as error:
        service.turned_away.note(socket, error)
        await _deny(socket, error)
        return
    await socket.accept()
    connection = hub.join(principal)
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_push, socket, connection, service)
            await _receive(socket, connection, service)
            tasks.cancel_scope.cancel()
    finally:
        try:
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(_disconnect, database, connection, limiter=hub.workers)
        finally:
            hub.leave(connection)  # Not earlier: a holder that the hub does not know is another replica's.


async def _deny(socket: WebSocket, error: TailwrightError) -> None:
    await socket.send_denial_response(JSONResponse(error.body(), error.status))


def _disconnect(database: Database, connection: AgentConnection) -> None:
    with database.session() as session:
        fleet.disconnect(session, connection.id, connection.principal.node)


async def _receive(socket: WebSocket, connection: AgentConnection, service: FleetParts) -> None:
    """Answer messages until the agent leaves, sends what cannot be read, or the hub ends the connection."""
    hub, spoken, incoming = service.fleet, False, None
    with anyio.move_on_after(hub.limits.first_message_s):
        incoming = await _next(socket)
    if incoming is None:
        hub.door.refuse(Refused.OPAMP_FIRST_MESSAGE)
        await _close(socket, *Close.NO_FIRST_MESSAGE.value)
        return
    while incoming["type"] != "websocket.disconnect":
        connection.spoke_s = hub.monotonic()
        frame = incoming.get("bytes")
        if frame is None:
            await _close(socket, NOT_BINARY, "OpAMP messages are binary")
            return
        try:
            report = wire.parse(wire.unframe(frame))
        except TooLarge as error:
            await _close(socket, TOO_LARGE, error.message)
            return
        except BadRequest as error:
            # Without a readable instance_uid there is nobody to answer; the reason goes into the close frame.
            await _close(socket, INVALID, error.message)
            return
        if not spoken and (later_s := hub.come_again_s()) is not None:
            goes_on = await _send(socket, connection, Answer(_later(report, later_s)))
        elif connection.ended is None and (quiet := hub.beat(connection, report)) is not None:
            goes_on = await _send(socket, connection, Answer(_paced(quiet, report, connection, hub)))
        else:
            spoken = True
            goes_on = await _exchange(socket, connection, report, service)
        if not goes_on:
            return
        incoming = await _next(socket)


async def _next(socket: WebSocket) -> Message:
    """What comes next, which is a disconnect where nothing can come any more."""
    try:
        return await socket.receive()
    except (WebSocketDisconnect, RuntimeError):
        return {"type": "websocket.disconnect"}


async def _exchange(
    socket: WebSocket, connection: AgentConnection, report: wire.AgentReport, service: FleetParts
) -> bool:
    """Take a report in and answer it. False when the connection is at its end."""
    hub = service.fleet
    async with connection.turn:
        if connection.ended is not None:
            await _end(socket, connection, connection.ended, service)  # What it says would take the node back.
            return False
        heard, connection.heard = connection.heard, None
        came = Came(connection.id, address_of(socket), connection.sequence_num)
        now = service.clock()
        try:
            answered = await hub.reports.do(Asked(connection.principal, report, now, came))
        except Exception:
            # The database is not there: the agent is told when to try again, and keeps its configuration.
            logger.exception("an OpAMP report could not be stored")
            failed = wire.Reply(report.instance_uid, error="not stored, try again", retry_after_s=RETRY_AFTER_S)
            answered = Answer(failed)
        if answered.node is not None:
            hub.left_out.note(answered.node, report.problems)
            hub.hold(connection, answered.node)
            connection.sequence_num = report.sequence_num
            connection.heard = heard_of(answered.node, report, answered.reply, heard, now)
            answered = replace(answered, reply=_paced(answered.reply, report, connection, hub))
        if not await _send(socket, connection, answered):
            return False
    if answered.rival_of is not None:
        hub.contention.refused(answered.rival_of)
        await _close(socket, *Close.REPLACED.value)
        return False
    return True


def _paced(reply: wire.Reply, report: wire.AgentReport, connection: AgentConnection, hub: FleetHub) -> wire.Reply:
    """With how often the agent is to speak, where that is new to it."""
    new_s = hub.new_heartbeat_s(connection) if report.takes_heartbeat else None
    return reply if new_s is None else replace(reply, heartbeat_s=new_s)


def _later(report: wire.AgentReport, later_s: float) -> wire.Reply:
    told = "many agents have come at once: come again"
    return wire.Reply(report.instance_uid, error=told, retry_after_s=later_s)


async def _push(socket: WebSocket, connection: AgentConnection, service: FleetParts) -> None:
    """Send the desired configuration whenever the hub says that it has changed."""
    hub = service.fleet
    while True:
        await connection.wake.wait()
        connection.wake = anyio.Event()
        if connection.ended is not None:
            await _end(socket, connection, connection.ended, service)
            return
        if connection.node is None:
            continue
        async with connection.turn:
            try:
                pushed = await hub.offers.do(connection.node)
            except Exception:
                logger.exception("a configuration could not be pushed to node %s", connection.node)
                continue
            if pushed is None or pushed.desired == connection.desired:
                continue  # It was answered with it meanwhile.
            connection.desired = pushed.desired
            if pushed.reply.offer is not None:
                connection.heard = None  # What the agent makes of it is news.
            if pushed.reply.offer is not None and not await _send(socket, connection, pushed):
                return


async def _send(socket: WebSocket, connection: AgentConnection, answered: Answer) -> bool:
    """False when the agent is gone."""
    if answered.node is not None:
        connection.desired = answered.desired
    try:
        await socket.send_bytes(wire.frame(wire.encode(answered.reply)))
    except (WebSocketDisconnect, RuntimeError):
        return False
    return True


async def _end(socket: WebSocket, connection: AgentConnection, why: Close, service: FleetParts) -> None:
    if connection.refused is not None:
        service.turned_away.note(socket, connection.refused)
        connection.refused = None
    await _close(socket, *why.value)


async def _close(socket: WebSocket, code: int, reason: str) -> None:
    try:
        await socket.close(code, reason[:120])
    except (WebSocketDisconnect, RuntimeError):
        return
