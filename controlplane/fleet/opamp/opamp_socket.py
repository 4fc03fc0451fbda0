"""/v1/opamp as a WebSocket: OpAMP for as long as the connection holds; a changed configuration is pushed.

Served beside FastAPI (`serves`), which takes half as long again for each that connects as all the rest: after an outage
all agents do at once.
"""

import logging
import math
from dataclasses import replace

import anyio
from starlette.responses import JSONResponse
from starlette.types import Message, Scope
from starlette.websockets import WebSocket, WebSocketDisconnect

from controlplane.auth.guard import holder_of
from controlplane.auth.principal import check_scope
from controlplane.contract.bodies.access import Scope as TokenScope
from controlplane.contract.errors import BadRequest, TailwrightError, TooLarge, Unavailable
from controlplane.db.request_parts import address_of
from controlplane.fleet.opamp import wire
from controlplane.fleet.opamp.hub import AgentConnection, Close, FleetHub, FleetParts
from controlplane.fleet.opamp.quiet_beats import heard_of
from controlplane.fleet.opamp.session import Answer, Asked, Came
from controlplane.fleet.opamp.turnstile import Place
from controlplane.serving.limits import Refused

logger = logging.getLogger(__name__)

PATH = "/v1/opamp"
RETRY_AFTER_S = 5.0
PLACE_S = 2.0
"""So long after it was let in a connection that says nothing keeps others out."""
NOT_BINARY, INVALID, TOO_LARGE = 1003, 1007, 1009  # RFC 6455, section 7.4.1.


def serves(scope: Scope) -> bool:
    return bool(scope["type"] == "websocket" and scope["path"] == PATH)


async def serve(socket: WebSocket, service: FleetParts) -> None:
    """From the handshake to the end."""
    hub = service.fleet
    try:
        principal = await holder_of(service, socket, socket.headers.get("Authorization", ""))
        service.token_uses.note(principal.token_id, principal.node)
        check_scope(principal, TokenScope.AGENT)
    except TailwrightError as error:
        service.turned_away.note(socket, error)
        await _deny(socket, error)
        return
    place = hub.come()
    if not isinstance(place, Place):
        await _deny(socket, Unavailable("many agents have come at once: come again"), place)
        return
    try:
        await place.reached.wait()
        await socket.accept()
        connection = hub.join(principal)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_push, socket, connection, service)
                await _receive(socket, connection, service, place)
                tasks.cancel_scope.cancel()
        finally:
            try:
                with anyio.CancelScope(shield=True):
                    await hub.departures.do(connection)
            finally:
                hub.leave(connection)  # Not earlier: a holder that the hub does not know is another replica's.
    finally:
        place.leave()


async def _deny(socket: WebSocket, error: TailwrightError, later_s: float | None = None) -> None:
    headers = None if later_s is None else {"Retry-After": str(math.ceil(later_s))}
    await socket.send_denial_response(JSONResponse(error.body(), error.status, headers))


async def _receive(socket: WebSocket, connection: AgentConnection, service: FleetParts, place: Place) -> None:
    """Answer messages until the agent leaves, sends what cannot be read, or the hub ends the connection."""
    hub = service.fleet
    incoming = await _first(socket, hub.limits.first_message_s, place)
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
            service.turned_away.note(socket, error)
            await _close(socket, TOO_LARGE, error.message)
            return
        except BadRequest as error:
            service.turned_away.note(socket, error)
            # Without a readable instance_uid there is nobody to answer; the reason goes into the close frame.
            await _close(socket, INVALID, error.message)
            return
        if connection.ended is None and (quiet := hub.beat(connection, report)) is not None:
            goes_on = await _send(socket, connection, hub, Answer(_paced(quiet, report, connection, hub)))
        else:
            goes_on = await _exchange(socket, connection, report, service)
        place.leave()
        if not goes_on:
            return
        incoming = await _next(socket)


async def _first(socket: WebSocket, within_s: float, place: Place) -> Message | None:
    """The first message; None: it has not come in time."""
    with anyio.move_on_after(min(PLACE_S, within_s)):
        return await _next(socket)
    place.leave()
    with anyio.move_on_after(max(0.0, within_s - PLACE_S)):
        return await _next(socket)
    return None


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
        if not await _send(socket, connection, hub, answered):
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


async def _push(socket: WebSocket, connection: AgentConnection, service: FleetParts) -> None:
    """Send the desired configuration whenever the hub says that it has changed."""
    hub = service.fleet
    while True:
        await connection.wake.wait()
        connection.wake.clear()
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
            hub.tell(connection, pushed.desired)
            if pushed.reply.offer is not None:
                connection.heard = None  # What the agent makes of it is news.
            if pushed.reply.offer is not None and not await _send(socket, connection, hub, pushed):
                return


async def _send(socket: WebSocket, connection: AgentConnection, hub: FleetHub, answered: Answer) -> bool:
    """False when the agent is gone."""
    if answered.node is not None:
        hub.tell(connection, answered.desired)
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
