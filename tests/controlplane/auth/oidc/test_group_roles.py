"""Groups make roles: the strongest counts, names are compared as they are written, and nothing else is a group."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.auth.oidc.group_roles import GroupRoles, groups_in
from controlplane.contract.bodies.people import Role
from controlplane.contract.errors import SignInRefused

GROUPS = st.frozensets(st.sampled_from(["a", "b", "c", "A", "d"]), max_size=3)
ROLES = st.builds(
    lambda viewer, operator, admin: GroupRoles({Role.VIEWER: viewer, Role.OPERATOR: operator, Role.ADMIN: admin}),
    GROUPS,
    GROUPS,
    GROUPS,
)
ORDER = [None, Role.VIEWER, Role.OPERATOR, Role.ADMIN]


@given(ROLES, GROUPS, GROUPS)
def test_more_groups_never_make_a_weaker_role(roles: GroupRoles, held: frozenset[str], more: frozenset[str]) -> None:
    assert ORDER.index(roles.of(held | more)) == max(ORDER.index(roles.of(held)), ORDER.index(roles.of(more)))


@given(ROLES, GROUPS)
def test_a_role_comes_of_a_group_that_makes_it(roles: GroupRoles, held: frozenset[str]) -> None:
    role = roles.of(held)
    if role is None:
        assert not any(held & groups for groups in roles.groups.values())
    else:
        assert held & roles.groups[role]


def test_which_groups_count_is_told_the_strongest_first() -> None:
    roles = GroupRoles({Role.VIEWER: frozenset({"z", "a"}), Role.ADMIN: frozenset({"root"})})
    assert roles.told() == "admin: root; viewer: a, z"
    assert GroupRoles().told() == "" and GroupRoles().of(["root"]) is None


@pytest.mark.parametrize(
    ("claims", "groups"),
    [({}, ()), ({"groups": []}, ()), ({"groups": ["a", "b"]}, ("a", "b")), ({"groups": "a b"}, ("a b",))],
)
def test_groups_are_a_list_or_one(claims: dict[str, Any], groups: tuple[str, ...]) -> None:
    assert groups_in(claims, "groups") == groups


@pytest.mark.parametrize("groups", [{"a": 1}, 7, True, ["a", 7], [["a"]], [None]])
def test_anything_else_is_refused_and_the_claim_named(groups: object) -> None:
    with pytest.raises(SignInRefused, match="'roles'"):
        groups_in({"roles": groups}, "roles")
