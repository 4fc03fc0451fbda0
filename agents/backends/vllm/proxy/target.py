"""The form of a target's URL: one spelling for one server, since requests in flight are counted by it."""

import re
from typing import Any, Final
from urllib.parse import urlsplit

from controlplane.contract.errors import BadRequest

HOST: Final = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]*:[0-9a-f:.]*")  # A name or IPv4 address, or an IPv6 address.


def target_url(url: Any) -> str:
    """`http://HOST:PORT`, or https, in its one spelling, or `BadRequest` that names the field and the mend."""
    if not isinstance(url, str):
        raise BadRequest(f"url: a string like http://127.0.0.1:8001 is wanted, got {url!r}", field="url")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadRequest(f"url: {url!r} is not a URL ({error})", field="url") from None
    name = parts.hostname or ""
    if parts.scheme not in ("http", "https") or not HOST.fullmatch(name) or not url.isprintable():
        raise BadRequest(f"url: {url!r} must be like http://127.0.0.1:8001 (HTTP or HTTPS, a host)", field="url")
    if parts.path not in ("", "/") or parts.query or parts.fragment or parts.username is not None:
        raise BadRequest(f"url: {url!r} must end after the port: paths are those of the requests", field="url")
    host = f"[{name}]" if ":" in name else name
    usual = 80 if parts.scheme == "http" else 443
    return f"{parts.scheme}://{host}:{usual if port is None else port}"
