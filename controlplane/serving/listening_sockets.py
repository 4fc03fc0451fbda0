"""The sockets of a server's port, taken before anything else is done: a port in use is found out while nothing is made.

Guarantee: the port is this process's once `taken` has returned; nobody is answered before the sockets listen.
"""

import errno
import socket
from contextlib import ExitStack
from typing import Any

from controlplane.contract.errors import BadSettings, Conflict, TailwrightError

_NOT_HERE = {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}


def taken(host: str, port: int) -> list[socket.socket]:
    """One for each address of `host`, bound to `port` (0: to a free one, the same for all).

    Raises Conflict for a port in use, BadSettings for an address that is not this machine's or may not be used.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror as error:
        raise BadSettings(f"host: {host} is no address of this machine: {error.strerror}", field="host") from error
    bound: list[socket.socket] = []
    with ExitStack() as unless_all_are:
        for family, _, _, _, address in found:
            given = port or (bound[0].getsockname()[1] if bound else 0)
            try:
                bound.append(_bound(family, (address[0], given, *address[2:])))
            except OSError as error:
                if error.errno in _NOT_HERE and len(found) > 1:
                    continue  # A name may have an address of a family that this machine does not have.
                raise _refused(host, port, error) from error
            unless_all_are.callback(bound[-1].close)
        if not bound:
            raise BadSettings(f"host: {host} is no address of this machine", field="host")
        unless_all_are.pop_all()
    return bound


def _bound(family: int, address: tuple[Any, ...]) -> socket.socket:
    """Raises OSError."""
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


def _refused(host: str, port: int, error: OSError) -> TailwrightError:
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            f"port: {port} of {host} is in use: stop what listens there (`ss -ltnp 'sport = :{port}'` names it), or "
            "give another --port",
            field="port",
        )
    if error.errno == errno.EACCES:
        return BadSettings(f"port: {port} of {host} may not be used by this user: give another --port", field="port")
    return BadSettings(f"host: {host} cannot be listened on: {error.strerror}", field="host")
