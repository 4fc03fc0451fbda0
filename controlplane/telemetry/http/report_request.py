"""One request to the receiver as far as it has been read, and the headers that its answer carries."""

from collections.abc import Mapping

from starlette.types import Receive, Scope

from controlplane.contract.clock import Clock
from controlplane.contract.errors import BadRequest
from controlplane.contract.reports import packed_report
from controlplane.telemetry.reports.stream_identity import StreamIdentity
from controlplane.telemetry.values.timespan import to_ns

_DRAINED_BYTES = 1 << 16
"""A body left unread is read and dropped by the server up to this length; beyond it the connection is closed."""
_ACCEPT = (packed_report.ACCEPT_HEADER.lower().encode(), packed_report.ACCEPT_PACKED.encode())
_TIME_NAME = packed_report.TIME_HEADER.lower().encode()
_IDENTITY_NAME = packed_report.REPORT_HEADER.lower().encode()

Headers = list[tuple[bytes, bytes]]


class ClientGone(Exception):
    """The connection ended within the body: nobody is there to answer."""


class ReportRequest:
    """headers: by their names in lower case."""

    def __init__(self, scope: Scope, receive: Receive, clock: Clock) -> None:
        self.scope = scope
        self.path: str = scope["path"]
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        self._clock = clock
        self._receive = receive
        self._complete = False

    async def next_part(self) -> tuple[bytes, bool]:
        """A part of the body, and whether there is more."""
        message = await self._receive()
        if message["type"] != "http.request":
            raise ClientGone
        more: bool = message.get("more_body", False)
        self._complete = not more
        return message.get("body", b""), more

    def leaves_much_unread(self) -> bool:
        """Whether an answer now would leave the server with more of a body than it should read for nothing."""
        if self._complete:
            return False
        length = self.headers.get(b"content-length", b"")
        return not length.isdigit() or int(length) > _DRAINED_BYTES

    def own_headers(self) -> Headers:
        return [_ACCEPT, (_TIME_NAME, b"%d" % to_ns(self._clock()))]


def identity(headers: Mapping[bytes, bytes], node: str | None) -> StreamIdentity | None:
    """Who the report is, where its sender (bound to `node`) says so. Raises `BadRequest`."""
    stated = headers.get(_IDENTITY_NAME)
    if stated is None:
        return None
    try:
        return StreamIdentity(*packed_report.parse_report_header(stated.decode("latin-1")), node)
    except ValueError as error:
        raise BadRequest(str(error), field=packed_report.REPORT_HEADER) from error
