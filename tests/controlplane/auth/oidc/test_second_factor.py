"""A second factor is what an ID token says in so many words, in either claim; what has another form is refused."""

from typing import Any

import pytest

from controlplane.auth.oidc.second_factor import SecondFactor
from controlplane.contract.errors import SignInRefused

EITHER = SecondFactor(frozenset({"mfa", "hwk"}), ("gold", "platinum"))


@pytest.mark.parametrize(
    ("claims", "shown"),
    [
        ({}, False),
        ({"amr": []}, False),
        ({"amr": ["pwd"]}, False),
        ({"amr": ["pwd", "hwk"]}, True),
        ({"amr": "mfa"}, True),
        ({"amr": ["MFA"]}, False),
        ({"amr": "pwd mfa"}, False),
        ({"acr": "gold"}, True),
        ({"acr": "Gold"}, False),
        ({"acr": "gold platinum"}, False),
        ({"acr": ""}, False),
        ({"acr": None, "amr": ["pwd"]}, False),
        ({"acr": "mfa", "amr": ["gold"]}, False),
        ({"acr": "gold", "amr": ["pwd"]}, True),
    ],
)
def test_either_claim_shows_it(claims: dict[str, Any], shown: bool) -> None:
    assert EITHER.shown_by(claims) is shown


def test_where_one_claim_is_named_the_other_shows_nothing() -> None:
    by_method, by_class = SecondFactor(frozenset({"mfa"})), SecondFactor(classes=("gold",))
    assert not by_method.shown_by({"acr": "mfa"}) and not by_method.shown_by({})
    assert not by_class.shown_by({"amr": ["gold"]}) and not by_class.shown_by({})


@pytest.mark.parametrize(
    "claims", [{"amr": {"mfa": True}}, {"amr": ["mfa", 1]}, {"amr": 1}, {"acr": 1}, {"acr": ["gold"]}]
)
def test_another_form_is_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(SignInRefused, match=next(iter(claims))):
        EITHER.shown_by({"amr": ["pwd"], **claims})


def test_what_counts_and_what_was_found_are_told() -> None:
    assert EITHER.told() == "amr hwk or mfa, or acr gold or platinum"
    assert SecondFactor(classes=("gold",)).told() == "acr gold"
    assert EITHER.found({"amr": ["pwd", "kba"]}) == "amr pwd, kba, acr nothing"
    assert EITHER.found({"acr": "silver"}) == "amr nothing, acr silver"
