"""Whether a database on another machine is reached in clear: its password, and all that is kept, could be read."""

from urllib.parse import parse_qs, urlsplit

from controlplane.contract.host_names import is_loopback

_ENCRYPTED = ("require", "verify-ca", "verify-full")
"""PostgreSQL's sslmode: `prefer`, libpq's default, goes on in clear where the server, or who is between, says so."""


def clear_database(url: str, setting: str) -> str | None:
    """The problem with `setting` and its mend; None: there is none, as with a file."""
    if not url.startswith("postgresql"):
        return None
    parts = urlsplit(url)
    asked = parse_qs(parts.query)
    host = parts.hostname or asked.get("host", [""])[-1]
    mode = asked.get("sslmode", ["prefer"])[-1]
    if is_here(host) or mode in _ENCRYPTED:
        return None
    return (
        f"{setting}: {host} is another machine, and sslmode={mode} may go in clear: append "
        "?sslmode=verify-full&sslrootcert=CA.pem, or set insecure_stores where the network is safe"
    )


def is_here(host: str) -> bool:
    """A Unix socket, or a loopback address."""
    return host == "" or host.startswith("/") or is_loopback(host)
