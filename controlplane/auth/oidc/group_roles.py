"""Which groups of the issuer make a viewer, an operator, an admin (pure)."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from controlplane.contract.bodies.people import Role
from controlplane.contract.errors import SignInRefused

_STRONGEST_FIRST = (Role.ADMIN, Role.OPERATOR, Role.VIEWER)


@dataclass(frozen=True)
class GroupRoles:
    """`groups`: of each role the groups that make it."""

    groups: Mapping[Role, frozenset[str]] = field(default_factory=dict)

    def of(self, groups: Iterable[str]) -> Role | None:
        """The strongest role of these groups; None where no group counts. Names are compared as they are written."""
        held = frozenset(groups)
        return next((role for role in _STRONGEST_FIRST if held & self.groups.get(role, frozenset())), None)

    def told(self) -> str:
        """Which groups count, in words."""
        named = ((role, sorted(self.groups.get(role, ()))) for role in _STRONGEST_FIRST)
        return "; ".join(f"{role.value}: {', '.join(groups)}" for role, groups in named if groups)


def groups_in(claims: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """The groups that an ID token names: a list, or one; none where the claim is missing. Raises `SignInRefused`."""
    found = claims.get(name, ())
    if isinstance(found, str):
        return (found,)
    if not isinstance(found, list | tuple) or not all(isinstance(group, str) for group in found):
        raise SignInRefused(f"id_token: the claim {name!r} is no list of groups", field=name)
    return tuple(found)
