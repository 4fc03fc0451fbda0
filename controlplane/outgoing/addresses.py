"""Which addresses the service may call: everybody's, and of its own networks only those that somebody has allowed.

A URL that a person or an agent has given must not make the service speak for itself to what only it can reach: its own
ports, the cloud's metadata (169.254.169.254), its neighbours (server-side request forgery, OWASP ASVS 12.6.1).
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from controlplane.contract.errors import BadSettings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

LOOPBACK: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_SIXTOFOUR = ipaddress.ip_network("2002::/16")


@dataclass(frozen=True)
class AddressPolicy:
    """`allowed`: networks beside the public ones."""

    allowed: tuple[Network, ...] = ()

    @classmethod
    def of(cls, networks: Iterable[str], field: str = "outgoing_allow") -> "AddressPolicy":
        """From CIDR text. Raises BadSettings."""
        try:
            return cls(tuple(ipaddress.ip_network(text.strip()) for text in networks))
        except ValueError as error:
            raise BadSettings(f"{field}: {error}; write networks like 10.0.0.0/8", field=field) from error

    def refusal(self, address: str) -> str | None:
        """Why this address may not be called; None when it may."""
        found = _innermost(ipaddress.ip_address(address.partition("%")[0]))
        if any(found in network for network in self.allowed):
            return None
        if found.is_global and not found.is_multicast and not found.is_reserved:
            return None
        return f"{found} is {_kind(found)}; --outgoing-allow lets the service call such a network"


NOWHERE_INSIDE = AddressPolicy()
ANYWHERE = AddressPolicy((ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")))


def _innermost(address: Address) -> Address:
    """The IPv4 address within an IPv6 one that stands for it."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _SIXTOFOUR and address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _kind(address: Address) -> str:
    for is_so, kind in (
        (address.is_unspecified, "no address of a host"),
        (address.is_loopback, "this machine itself"),
        (address.is_link_local, "link-local, as a cloud's metadata are"),
        (address.is_multicast, "a multicast group"),
        (address.is_private, "in a private network"),
    ):
        if is_so:
            return kind
    return "no public address"
