"""Where a request's trace is shown: the address of a tracing system's page, with `{trace_id}` where the id goes.

Pure. Guarantee: whatever id an engine has reported, it becomes a part of the path, the query or the fragment, and never
of the scheme or the host.
"""

from urllib.parse import quote, urlsplit

PLACE = "{trace_id}"
WANTED = f"wants http(s)://HOST/... with one {PLACE} behind the host, such as https://tempo.example/trace/{PLACE}"


def checked(text: str) -> str:
    """The same text. Raises `ValueError` that says what is wanted."""
    parts = urlsplit(text)  # Raises `ValueError` for what is no address.
    behind = text.count(PLACE) == 1 and PLACE not in parts.netloc
    printable = text.isascii() and text.isprintable() and " " not in text
    if parts.scheme not in ("http", "https") or not parts.hostname or not behind or not printable:
        raise ValueError(WANTED)
    return text


def trace_link(url: str, trace_id: str) -> str:
    """The address of one trace; `url` is as `checked` takes it."""
    return url.replace(PLACE, quote(trace_id, safe=""))
