"""Secrets of a destination that a change keeps: they are not sent again, the ones that are there stay. Pure.

Guarantee: a secret is kept only where it goes to where it went before. Otherwise whoever may change a destination
would have what lets in sent to a place of their own.
"""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from controlplane.contract.channels.destination_kinds import DESTINATION_KINDS
from controlplane.contract.channels.destinations import DestinationReplace
from controlplane.contract.errors import BadRequest
from controlplane.contract.shown_url import masked

SECRETS = ("url", "secret", "callback_secret")
D = TypeVar("D", bound=DestinationReplace)


class Stored(Protocol):
    """A secret that is there. text: None where it cannot be read any more."""

    @property
    def text(self) -> str | None: ...


def with_kept(wanted: D, kind: str | None, shown: str, stored: Mapping[str, Stored | None]) -> D:
    """With the secrets that it keeps of the destination that is there, each under its name in `stored`.

    kind: of what is there, None where nothing is; shown: its URL as people see it. Raises `BadRequest` where there is
    nothing to keep, or it is given as well.
    """
    kept = {name: _kept(wanted, name, stored.get(name)) for name in SECRETS if getattr(wanted, f"{name}_kept")}
    whole = wanted.model_copy(update=kept)
    place = masked(whole.url or DESTINATION_KINDS[whole.kind].usual_url or "")
    if "secret" in kept and (whole.kind.value, place) != (kind, shown):
        raise BadRequest(
            f"secret_kept: the secret belongs to {shown}, and this is another place; give the secret anew",
            field="secret_kept",
        )
    return whole


def _kept(wanted: DestinationReplace, name: str, stored: Stored | None) -> str:
    field = f"{name}_kept"
    if getattr(wanted, name) is not None:
        raise BadRequest(f"{field}: leave it out, or give no {name}: it is one or the other", field=field)
    if stored is None:
        raise BadRequest(
            f"{field}: destination {wanted.name!r} has no {name} that could be kept; give it (in a file of "
            f"`tailwright apply` by {name}_file or {name}_env)",
            field=field,
        )
    if stored.text is None:
        raise BadRequest(f"{field}: the {name} that is there cannot be read any more; give it anew", field=field)
    return stored.text
