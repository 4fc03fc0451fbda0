"""The form that changes a destination: what it says of one that is there, and back. Pure, but for the look-up.

Guarantee: a secret is never in the form; where its field is empty, the one that is there is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from controlplane.client import Client
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.alerts import Silenced
from controlplane.contract.channels.destinations import Destination, DestinationReplace
from controlplane.contract.errors import NotFound
from web.access.viewer import scope_of
from web.frame.selection import is_number
from web.settings.form_fields import destination_of
from web.settings.routing_fields import lines_of

SECRETS = ("url", "secret", "callback_secret")


@dataclass(frozen=True)
class ChangedDestination:
    """One that is there, and its form as it is filled in."""

    there: Destination
    said: Mapping[str, str]


def changed_destination(client: Client, what: str) -> ChangedDestination | None:
    """What the address wants to have changed: "destination/3". Raises `NotFound`."""
    if not what or scope_of(client) is not Scope.ADMIN:
        return None
    kind, _, text = what.partition("/")
    number = int(text) if kind == "destination" and is_number(text) else 0
    there = next((one for one in client.destinations() if one.id == number), None)
    if there is None:
        raise NotFound(f"no {what[:40]!r} to change here", field="edit")
    return ChangedDestination(there, destination_said(there))


def destination_said(there: Destination) -> dict[str, str]:
    """The form of a destination that is there."""
    return {
        "name": there.name,
        "kind": there.kind.value,
        "recipients": ", ".join(there.recipients),
        "sender": there.sender or "",
        "login": there.login or "",
        "per_minute": "" if there.per_minute is None else str(there.per_minute),
        "title_template": there.title_template or "",
        "text_template": there.text_template or "",
        "only": "" if there.only is None else lines_of(there.only),
        "enabled": "on" if there.enabled else "",
    }


def replaced_of(fields: Mapping[str, str], only: Silenced | None, there: Destination) -> DestinationReplace:
    """What the form makes of a destination. Raises `BadRequest` that names the field."""
    wanted = destination_of({name: text for name, text in fields.items() if name != "enabled"}, only)
    as_it_is = there.unchanged()
    kept = {f"{name}_kept": getattr(as_it_is, f"{name}_kept") and getattr(wanted, name) is None for name in SECRETS}
    return DestinationReplace.model_validate({**dict(wanted), **kept, "enabled": fields.get("enabled") == "on"})
