"""How our clients reach a server: straight, or through the one proxy that somebody named to us.

Guarantee: HTTP_PROXY, HTTPS_PROXY and ALL_PROXY of the environment are not followed: they are often set for something
else, and a proxy of plain HTTP reads each bearer token. This machine, and a Unix socket, are always asked straight.
"""

import ssl
from typing import Final
from urllib.parse import urlsplit

import httpx

from controlplane.contract.errors import BadSettings
from controlplane.contract.host_names import is_loopback
from controlplane.contract.shown_url import address

NOT_BELIEVED: Final = "CERTIFICATE_VERIFY_FAILED"
"""OpenSSL's word, which each HTTP client hands on."""


def proxy_for(url: str, named: str | None) -> str | None:
    """The proxy by which `url` is asked, of the one that was named; None: straight."""
    parts = urlsplit(url)
    if named is None or parts.scheme == "unix" or is_loopback(parts.hostname or ""):
        return None
    return named


def checked_proxy(text: str | None) -> str | None:
    """A proxy's URL as it was given; an empty one is none. Raises BadSettings, which repeats no password of it."""
    if text and not (text.startswith(("http://", "https://")) and urlsplit(text).hostname):
        raise BadSettings(f"proxy: wants http://HOST:PORT or https://HOST:PORT, got {address(text)!r}", field="proxy")
    return text or None


def authorities(url: str) -> ssl.SSLContext:
    """Whom a client of `url` trusts that was told nobody: whom SSL_CERT_FILE or SSL_CERT_DIR names, else the public
    ones. Where `url` is one without TLS, nobody: to read the public ones takes longer than most questions."""
    if url.startswith(("http://", "unix:")):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return httpx.create_ssl_context()


def unreached(error: Exception, mend: str = "SSL_CERT_FILE says whose certificates count") -> str:
    """Why a client has no answer, in one line. mend: what says whose certificates it believes, told where it did not
    believe one; such a client's is SSL_CERT_FILE."""
    text = repr(error) if isinstance(error, LookupError) else str(error) or type(error).__name__
    return f"{text}; {mend}" if NOT_BELIEVED in text else text
