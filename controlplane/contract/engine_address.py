"""Where an engine may listen, as its agent tells: the service keeps the address, the tuner calls it. Pure.

Guarantee: what passes is http or https to a host, without credentials; and no address passes that no engine has but
others do, such as a cloud's metadata (169.254.169.254).
"""

import ipaddress
from urllib.parse import urlsplit

LONGEST = 300


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


def problem_of_address(host: str) -> str | None:
    """Why no engine listens at an address; None where one may, and for a name."""
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
    return None
