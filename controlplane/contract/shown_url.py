"""URLs as they may be shown: most that the service calls hold a secret in their path, their query or their userinfo."""

from urllib.parse import urlsplit

HIDDEN = "***"


def masked(url: str) -> str:
    """https://hooks.example:8443/***: scheme, host and port alone."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or HIDDEN, parts.port
    except ValueError:
        return HIDDEN
    named = f"[{host}]" if ":" in host else host
    return f"{parts.scheme or HIDDEN}://{named}{'' if port is None else f':{port}'}/{HIDDEN}"


def without(url: str, text: str) -> str:
    """A text, such as another's error, in which the URL is masked, and each part of it that may be a secret."""
    text = text.replace(url, masked(url))
    try:
        parts = urlsplit(url)
        found = (parts.path, parts.query, parts.fragment, parts.username, parts.password)
    except ValueError:
        return text
    for part in sorted({part for part in found if part and len(part) > 3}, key=len, reverse=True):
        text = text.replace(part, HIDDEN)
    return text


def address(url: str) -> str:
    """A server's own URL, which is no secret, without a userinfo, a query or a fragment."""
    scheme, separator, rest = url.partition("://")
    place = rest.partition("?")[0].partition("#")[0]
    host, slash, path = place.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"
