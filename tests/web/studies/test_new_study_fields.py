"""The form of a new study offers all that a study can be told, in the contract's own words."""

import pytest

from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.knobs import KNOBS
from web.rollouts.proposal_fields import HOW
from web.studies.new_study_fields import FIELDS, ONLINE, WINNER, study_fields

MADE_OF_SEVERAL = {*WINNER, "space", "rollout", "online"}
"""What a study is told by several fields, or by one of the form's own."""


def test_each_field_of_the_contract_has_its_place_once() -> None:
    own = {"profile", "winner", "declared", "where", *ONLINE, *KNOBS, *HOW}
    assert len(set(FIELDS)) == len(FIELDS)
    assert set(FIELDS) - own == set(StudyCreate.model_fields) - MADE_OF_SEVERAL


def test_each_field_says_what_it_is() -> None:
    found = study_fields()
    assert set(found) == set(FIELDS) - set(HOW)
    assert all(one.title and one.hint.endswith(".") for one in found.values())


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("max_trials", "Configurations to try at most. Empty: 12."),
        (
            "objective_q",
            "The quantile of a histogram, within 0 and 1; other objectives have none; such as p95. Empty: p95.",
        ),
        ("max_lost_share", "Share of requests that a winner may lose: refused, failed or cut short. Empty: 2 %."),
        ("max_num_seqs", "Most requests that run at once; requests, 1 to 4096."),
    ],
)
def test_a_hint_is_the_contracts_with_its_default(name: str, hint: str) -> None:
    assert study_fields()[name].hint == hint


def test_the_usual_objective_is_offered_first() -> None:
    assert next(iter(study_fields()["objective"].choices)) == StudyCreate.model_fields["objective"].default
