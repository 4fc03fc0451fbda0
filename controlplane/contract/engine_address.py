"""Where an engine may listen, as its agent tells: the service keeps the address, the tuner calls it. Pure.

Guarantee: what passes is http or https to a host, without credentials; and no address passes that no engine has but
others do, such as a cloud's metadata (169.254.169.254). Where networks are named, no other passes either.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from controlplane.contract.errors import BadSettings

LONGEST = 300
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


def networks_of(words: Iterable[str]) -> tuple[Network, ...]:
    """From CIDR text. Raises BadSettings."""
    try:
        return tuple(ipaddress.ip_network(word.strip()) for word in words)
    except ValueError as error:
        raise BadSettings(f"engine_allow: {error}; write networks like 10.0.0.0/8", field="engine_allow") from error


def problem_of(url: str) -> str | None:
    """What is wrong with an engine's URL; None: nothing."""
    if len(url) > LONGEST or not url.isprintable() or " " in url:
        return f"wants at most {LONGEST} printable characters without spaces"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"is no URL: {error}"
    if parts.scheme not in ("http", "https") or not host:
        return "wants http://HOST:PORT or https://HOST:PORT"
    if "@" in parts.netloc or parts.query or parts.fragment:
        return "wants no user, no query and no fragment"
    return problem_of_address(host)


def problem_of_address(host: str, networks: Sequence[Network] = ()) -> str | None:
    """Why no engine listens at an address; None where one may, and for a name. `networks`: all that engines are in;
    empty: that is not said."""
    try:
        found = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    for is_so, kind in (
        (found.is_unspecified, "no address of a host"),
        (found.is_link_local, "link-local, as a cloud's metadata are"),
        (found.is_multicast, "a multicast group"),
        (found.version == 4 and found.is_reserved, "reserved"),
    ):
        if is_so:
            return f"{found} is {kind}: no engine listens there"
    if networks and not any(found in network for network in networks):
        return f"{found} is in none of the networks of engine_allow"
    return None
