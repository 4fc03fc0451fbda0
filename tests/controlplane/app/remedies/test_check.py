"""What a person may write as a rule's remedy."""

import pytest

from controlplane.app.remedies import check_remedy
from controlplane.contract.bodies.alerts import Remedy
from controlplane.contract.bodies.studies import KnobRange, StudyCreate
from controlplane.contract.errors import BadRequest

UNKNOWN_KNOB = StudyCreate(pool="p", space={"max_num_seq": KnobRange(minimum=1, maximum=2)})


@pytest.mark.parametrize(
    ("remedy", "field"),
    [
        (Remedy(study=StudyCreate(pool="p", objective="speed")), "remedy.study.objective"),
        (Remedy(study=UNKNOWN_KNOB), "remedy.study.space.max_num_seq"),
        (Remedy(rollout={"canary": 0.5}), "remedy.rollout.canary"),
        (Remedy(rollout={"canary_share": 2}), "remedy.rollout.canary_share"),
        (Remedy(rollout={"tolerance": True}), "remedy.rollout.tolerance"),
        (Remedy(rollout={"limits": [{"metric": "ttft", "q": "0.9", "limit_s": 1}]}), "remedy.rollout.limits.0.q"),
        (Remedy(rollout={"takes_back": 2}), "remedy.rollout.takes_back"),
    ],
)
def test_what_could_never_start_is_refused_when_the_rule_is_made(remedy: Remedy, field: str) -> None:
    with pytest.raises(BadRequest) as caught:
        check_remedy(remedy)
    assert caught.value.detail["field"] == field and caught.value.message.startswith(field)


@pytest.mark.parametrize(
    "remedy", [Remedy(), Remedy(study=StudyCreate(pool="nodes come later")), Remedy(rollout={"tolerance": 0.2})]
)
def test_what_may_start_is_taken(remedy: Remedy) -> None:
    check_remedy(remedy)
