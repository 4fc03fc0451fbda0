"""What a study replays is named without doubt: captured, a kept workload, or a profile at a rate."""

import re

import pytest

from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.bodies.workload import WORKLOAD_NAME
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.replayed_traffic_name import (
    TRAFFIC_PROFILES,
    TrafficProfile,
    profile_of,
    traffic_words,
)
from controlplane.contract.planning.study_checks import check_spec
from tuner.workload.generate import SHAPES


@pytest.mark.parametrize(
    ("name", "profile", "words"),
    [
        ("", None, "captured of the pool"),
        ("friday", None, "workload friday"),
        ("profile", None, "workload profile"),
        ("profile:chat@4", TrafficProfile("chat", 4.0), "profile chat at 4 requests a second"),
        ("profile:agents@0.25", TrafficProfile("agents", 0.25), "profile agents at 0.25 requests a second"),
    ],
)
def test_a_name_means_one_thing(name: str, profile: TrafficProfile | None, words: str) -> None:
    assert profile_of(name) == profile and traffic_words(name) == words
    if profile is not None:
        assert not re.fullmatch(WORKLOAD_NAME, name), "nobody can keep a workload under it"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("profile:chatt@4", "no profile 'chatt', did you mean 'chat'"),
        ("profile:@4", "no profile ''"),
        ("profile:chat", "wants requests a second after the profile, 0.01 to 1000, such as profile:chat@4"),
        ("profile:chat@", "wants requests a second"),
        ("profile:chat@fast", "wants requests a second"),
        ("profile:chat@0", "wants requests a second"),
        ("profile:chat@nan", "wants requests a second"),
        ("profile:chat@1001", "wants requests a second"),
    ],
)
def test_a_wrong_profile_is_refused_when_the_study_is_asked_for(name: str, why: str) -> None:
    with pytest.raises(BadRequest, match=why) as refused:
        check_spec(StudyCreate(pool="chat", workload=name))
    assert refused.value.detail["field"] == "workload"


def test_each_profile_is_one_that_can_be_made() -> None:
    assert set(TRAFFIC_PROFILES) == set(SHAPES)
