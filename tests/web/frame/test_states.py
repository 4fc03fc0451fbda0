"""Every state of the contract has a kind, and each kind is told by colour, shape and word."""

import re
from enum import StrEnum

import pytest

from controlplane.contract.bodies.alerts import AlertState
from controlplane.contract.bodies.rollouts import RolloutPhase, Verdict
from controlplane.contract.bodies.studies import StudyState, StudyVerdict
from controlplane.contract.channels.destinations import DeliveryState
from web.frame.rendering import templates
from web.frame.states import WORDS, Kind, kind_of

NEITHER = {"cancelled"}
"""Ended by a person: neither good nor bad."""


@pytest.mark.parametrize("states", [AlertState, DeliveryState, RolloutPhase, Verdict, StudyState, StudyVerdict])
def test_each_state_of_the_contract_has_a_kind(states: type[StrEnum]) -> None:
    assert {state for state in states if kind_of(state) is None} <= NEITHER


def test_no_word_is_of_two_kinds() -> None:
    words = [word for of in WORDS.values() for word in of]
    assert len(words) == len(set(words)) and set(WORDS) == set(Kind)


@pytest.mark.parametrize("kind", list(Kind))
def test_a_state_has_a_shape_and_its_word(kind: Kind) -> None:
    macros = templates.get_template("components/states.html").module
    word = WORDS[kind][-1]
    text = str(macros.state(word))  # type: ignore[attr-defined]
    assert f'class="tag {kind}"' in text and f'href="#is-{kind}"' in text
    assert re.sub("<[^>]*>", "", text) == word.replace("_", " ")
    assert f'id="is-{kind}"' in str(macros.shapes())  # type: ignore[attr-defined]
