"""A secret that a change keeps: it is not sent again, the one that is there stays.

Guarantee: a secret is kept only where it goes to where it went before. Otherwise whoever may change what it belongs to
would have what lets in sent to a place of their own.
"""

from dataclasses import dataclass, field
from typing import Protocol

from controlplane.contract.errors import BadRequest
from controlplane.keys import Keyring, Place, Undecryptable


class Stored(Protocol):
    """A secret that is there. text: None where it cannot be read any more."""

    @property
    def text(self) -> str | None: ...


@dataclass(frozen=True)
class Secret:
    """As it is in the database. text: None where it cannot be read any more."""

    text: str | None = field(repr=False)

    @classmethod
    def read(cls, keyring: Keyring, place: Place, encrypted: str | None) -> "Secret | None":
        """None where there is none."""
        if encrypted is None:
            return None
        try:
            return cls(keyring.decrypt(place, encrypted))
        except Undecryptable:
            return cls(None)


def kept(name: str, given: str | None, stored: Stored | None, whose: str, hint: str = "") -> str:
    """The secret that stays. whose: what it belongs to, in words; hint: how else it could be given. Raises `BadRequest`
    where it is given as well, or there is nothing to keep."""
    asked = f"{name}_kept"
    if given is not None:
        raise BadRequest(f"{asked}: leave it out, or give no {name}: it is one or the other", field=asked)
    if stored is None:
        raise BadRequest(f"{asked}: {whose} has no {name} that could be kept; give it{hint}", field=asked)
    if stored.text is None:
        raise BadRequest(f"{asked}: the {name} that is there cannot be read any more; give it anew", field=asked)
    return stored.text


def elsewhere(shown: str) -> BadRequest:
    """Of a secret that is to be kept where what it belongs to goes to another place. shown: the place before."""
    return BadRequest(
        f"secret_kept: the secret belongs to {shown}, and this is another place; give the secret anew",
        field="secret_kept",
    )
