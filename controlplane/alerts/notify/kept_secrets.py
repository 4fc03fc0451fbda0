"""Secrets of a destination that a change keeps: they are not sent again, the ones that are there stay. Pure.

Guarantee: that of `keys.kept_secret`; a destination's place is its kind and its URL.
"""

from collections.abc import Mapping
from typing import TypeVar

from controlplane.contract.channels.destination_kinds import DESTINATION_KINDS
from controlplane.contract.channels.destinations import DestinationReplace
from controlplane.contract.shown_url import masked
from controlplane.keys.kept_secret import Stored, elsewhere, kept

SECRETS = ("url", "secret", "callback_secret")
D = TypeVar("D", bound=DestinationReplace)


def with_kept(wanted: D, kind: str | None, shown: str, stored: Mapping[str, Stored | None]) -> D:
    """With the secrets that it keeps of the destination that is there, each under its name in `stored`.

    kind: of what is there, None where nothing is; shown: its URL as people see it. Raises `BadRequest` where there is
    nothing to keep, or it is given as well.
    """
    stay = {name: _kept(wanted, name, stored.get(name)) for name in SECRETS if getattr(wanted, f"{name}_kept")}
    whole = wanted.model_copy(update=stay)
    place = masked(whole.url or DESTINATION_KINDS[whole.kind].usual_url or "")
    if "secret" in stay and (whole.kind.value, place) != (kind, shown):
        raise elsewhere(shown)
    return whole


def _kept(wanted: DestinationReplace, name: str, stored: Stored | None) -> str:
    hint = f" (in a file of `tailwright apply` by {name}_file or {name}_env)"
    return kept(name, getattr(wanted, name), stored, f"destination {wanted.name!r}", hint)
