"""The connections to vLLM, and how the proxy knows whether a request on a lost one had been read.

When a connection ends before an answer, the request may be sent again only if the server cannot have acted on it. A
program that ends or closes while bytes wait unread in its socket makes the kernel send a reset, one that has read all
of them a plain end (RFC 1122, section 4.2.2.13; Linux does so). So a reset says: not read to its last byte, and a
server that acts on whole requests, as vLLM does, has not acted on it. One case is left: the server had closed an idle
connection just before the request was written. Then the end arrives first, as a plain one, and the reset follows or is
on its way; the request's bytes are unacknowledged, while an end that the server sent after it received the request
acknowledges them. `WatchedSocket` asks the kernel for both at that moment and turns such an end into a reset.

By TLS it is the same, for what the kernel has not handed over whole cannot be decrypted; but a server that says by TLS
that it closes an idle connection (close_notify) has ended it plainly, whatever is on its way to it.

This speaks of a server that is reached directly, not through another proxy. Where the kernel cannot be asked (not
Linux) an end stays an end, and the request counts as possibly read.
"""

import errno
import fcntl
import socket
import ssl
import struct
import sys
import termios
from typing import Any, Final

import aiohttp
from aiohttp.abc import AbstractCookieJar

# Shorter than the 5 s after which uvicorn, and so vLLM, closes an idle connection.
IDLE_S: Final = 3.0
CONNECT_S: Final = 5.0
HEADER_BYTES: Final = 64 * 1024
OWN_HEADERS: Final = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")


class WatchedSocket(socket.socket):
    """A TCP socket on which an end that left the request unread is a `ConnectionResetError`."""

    def recv(self, bufsize: int, flags: int = 0, /) -> bytes:
        data = super().recv(bufsize, flags)
        if not data and self._request_unread():
            raise ConnectionResetError(errno.ECONNRESET, "closed without having read the request")
        return data

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0, /) -> int:
        """As `recv`; this is how what comes by TLS is read."""
        count = super().recv_into(buffer, nbytes, flags)
        if not count and self._request_unread():
            raise ConnectionResetError(errno.ECONNRESET, "closed without having read the request")
        return count

    def _request_unread(self) -> bool:
        if self.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            return True
        if sys.platform != "linux":
            return False
        unacknowledged: int = struct.unpack("i", fcntl.ioctl(self.fileno(), termios.TIOCOUTQ, bytes(4)))[0]
        return unacknowledged > 0


def connect_to_servers(trusted: ssl.SSLContext) -> aiohttp.ClientSession:
    """Any number of connections, reused for a while; nothing added to requests, nothing unpacked in answers. trusted:
    who vouches for servers behind https."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=0,
            keepalive_timeout=IDLE_S,
            ssl=trusted,
            socket_factory=lambda info: WatchedSocket(info[0], info[1], info[2]),
        ),
        cookie_jar=_no_cookies(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
        auto_decompress=False,
        skip_auto_headers=OWN_HEADERS,
        max_line_size=HEADER_BYTES,
        max_field_size=HEADER_BYTES,
    )


def _no_cookies() -> AbstractCookieJar:
    return aiohttp.DummyCookieJar()


def read_by_nobody(error: Exception) -> bool:
    """Whether the request that met `error` before its answer began was surely not read whole by any server."""
    if unreachable(error):
        return True
    if isinstance(error, aiohttp.ClientOSError):
        # Without a number: the connection was found closed in the moment of writing, and nothing more was written.
        return error.errno in (errno.ECONNRESET, errno.EPIPE, None)
    return isinstance(error, ConnectionResetError)


def unreachable(error: Exception) -> bool:
    """Whether there was no connection at all."""
    return isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError)
