"""What shows in an ID token that somebody has signed in with a second factor (pure).

`amr`: the methods that were used (RFC 8176); `acr`: the class of the sign-in (OpenID Connect Core 1.0, section 2).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.contract.errors import SignInRefused


@dataclass(frozen=True)
class SecondFactor:
    """A sign-in has it by any one of these methods, or by any one of these classes. At least one of both is named."""

    methods: frozenset[str] = frozenset()
    classes: tuple[str, ...] = ()

    def shown_by(self, claims: Mapping[str, Any]) -> bool:
        """Whether an ID token says so; values are compared as they are written. Raises `SignInRefused`."""
        return not self.methods.isdisjoint(_methods(claims)) or _class(claims) in self.classes

    def told(self) -> str:
        """What counts, in words."""
        named = {"amr": sorted(self.methods), "acr": self.classes}
        return ", or ".join(f"{claim} {' or '.join(values)}" for claim, values in named.items() if values)

    def found(self, claims: Mapping[str, Any]) -> str:
        """What an ID token says of how it was signed in, in words. Raises `SignInRefused`."""
        return f"amr {', '.join(_methods(claims)) or 'nothing'}, acr {_class(claims) or 'nothing'}"


def _methods(claims: Mapping[str, Any]) -> tuple[str, ...]:
    found = claims.get("amr", ())
    if isinstance(found, str):
        return (found,)
    if not isinstance(found, list | tuple) or not all(isinstance(method, str) for method in found):
        raise SignInRefused("id_token: the claim 'amr' is no list of methods", field="amr")
    return tuple(found)


def _class(claims: Mapping[str, Any]) -> str | None:
    found = claims.get("acr")
    if found is not None and not isinstance(found, str):
        raise SignInRefused("id_token: the claim 'acr' is no text", field="acr")
    return found
