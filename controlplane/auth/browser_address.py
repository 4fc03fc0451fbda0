"""Where a browser's request came from: the dashboard asks the API for it, and says so by the voucher it was given.

Guarantee: nobody else can say where a session was begun: the voucher is made anew by each process, for itself.
"""

import hmac
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from controlplane.contract.bodies.people import ADDRESS_HEADER, VOUCHER_HEADER
from controlplane.keys import Keyring, Place


def browser_address(connection: HTTPConnection, voucher: str) -> str | None:
    """The address that the dashboard vouches for; else that of who asks. None where it is not known."""
    shown = connection.headers.get(VOUCHER_HEADER, "")
    if hmac.compare_digest(shown.encode(), voucher.encode()):
        return connection.headers.get(ADDRESS_HEADER, "")[:64] or None
    return connection.client.host if connection.client else None


@dataclass(frozen=True)
class SeenFrom:
    """A browser's address, None where it is not known, and what encrypts it in the database."""

    keyring: Keyring
    address: str | None


def address_place(session_id: int) -> Place:
    """Where the address of a session is."""
    return Place("browser_session", "address", session_id)
