"""The public authorities, read once for all of httpx's clients in a process.

A client that is not told whom to trust reads them anew: 17 ms of CPU, also for an address without TLS, and for each
call of `httpx.get`, of which a test that waits may make twenty a second. The product shares them by itself.
"""

import os
import ssl
from collections.abc import Callable
from functools import cache
from typing import Any

NAMED = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def share(create: Callable[..., ssl.SSLContext]) -> Callable[..., ssl.SSLContext]:
    """httpx's `create_ssl_context`, which makes one of those that trust the public authorities."""

    @cache
    def public(trust_env: bool, *named: str | None) -> ssl.SSLContext:
        return create(trust_env=trust_env)

    def sharing(verify: Any = True, cert: Any = None, trust_env: bool = True) -> ssl.SSLContext:
        if verify is True and cert is None:
            return public(trust_env, *map(os.environ.get, NAMED))
        return create(verify=verify, cert=cert, trust_env=trust_env)

    return sharing
