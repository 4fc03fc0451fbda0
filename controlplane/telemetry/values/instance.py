"""Who exports: a name that every export bears, so that a service that is sent its own knows it.

What a service has exported and takes in again it would export again, and so on: every figure would grow for ever.

Guarantee: all replicas on one database have one name, for good; no two databases have the same, but for copies.
"""

import secrets
from ipaddress import ip_address
from urllib.parse import urlsplit

from sqlalchemy.exc import IntegrityError

from controlplane.contract.errors import BadRequest
from controlplane.db.database import Database
from controlplane.telemetry.values.export_tables import InstanceRow

HEADER = "Tailwright-Exported-By"


def name_of(database: Database) -> str:
    """The name, made where there is none yet."""
    found = _read(database)
    if found is None:
        try:
            with database.session() as session:
                session.add(InstanceRow(id=1, name=secrets.token_hex(16)))
        except IntegrityError:
            pass  # Another replica was faster; its name counts.
        found = _read(database)
        assert found is not None
    return found


def refuse_own(database: Database, exported_by: str) -> None:
    """Raises `BadRequest` where the sender's name is this service's own."""
    if exported_by == name_of(database):
        raise BadRequest(
            "these are this service's own exports: taken in, they would be exported again, for ever; "
            "export_otlp_url must be another service's",
            field=HEADER,
        )


def refuse_own_url(setting: str, url: str, host: str, port: int) -> None:
    """Raises `BadRequest` where a URL plainly leads to the service itself, which listens at `host` and `port`."""
    to = urlsplit(url)
    if (to.port or {"http": 80, "https": 443}[to.scheme]) == port and _same_host(to.hostname or "", host):
        raise BadRequest(f"{setting}: {to.hostname}:{port} is this service itself", field=setting)


def _same_host(one: str, other: str) -> bool:
    if one.lower() == other.lower():
        return True
    return _is_here(one) and _is_here(other)


def _is_here(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified


def _read(database: Database) -> str | None:
    with database.read_session() as session:
        row = session.get(InstanceRow, 1)
        return None if row is None else row.name
