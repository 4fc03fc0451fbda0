"""An httpx transport that looks at where a request would go, and connects to exactly the address that it looked at.

Guarantee: a name is resolved once for each connection, all its addresses are checked, and the connection goes to one of
them by number: a second answer of the name's owner (DNS rebinding) is never asked for. Host and the certificate's name
stay those of the URL. No proxy of the environment is used unless one was named.
"""

import socket
import ssl
from functools import cache

import httpx

from controlplane.outgoing.addresses import AddressPolicy


class RefusedAddress(httpx.ConnectError):
    """The URL leads where this service may not call."""


@cache
def public_authorities() -> ssl.SSLContext:
    """Read once in a process: parsing them takes twenty milliseconds, and each client would do it."""
    return httpx.create_ssl_context(trust_env=False)


class GuardedTransport(httpx.HTTPTransport):
    """`policy` says which addresses are allowed, `tls` whom to trust (None: the public authorities)."""

    def __init__(self, policy: AddressPolicy, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(
            verify=tls or public_authorities(), trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )
        self._policy = policy

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        host, port = request.url.host, request.url.port or (443 if request.url.scheme == "https" else 80)
        address = self._address(host, port, request)
        request.extensions = {**request.extensions, "sni_hostname": host}
        request.url = request.url.copy_with(host=address)
        return super().handle_request(request)

    def _address(self, host: str, port: int, request: httpx.Request) -> str:
        try:
            return allowed_address(self._policy, host, port)
        except httpx.ConnectError as error:
            error.request = request
            raise


def allowed_address(policy: AddressPolicy, host: str, port: int) -> str:
    """The number to connect to, of a name all of whose addresses are allowed. Raises httpx.ConnectError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise httpx.ConnectError(f"{host}: {error}") from error
    addresses = [str(entry[4][0]) for entry in found]
    for address in addresses:
        if refusal := policy.refusal(address):
            raise RefusedAddress(f"{host}: {refusal}")
    return addresses[0]
