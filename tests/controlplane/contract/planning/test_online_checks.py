"""What has no meaning where nothing is replayed is refused by its field; what steps are judged by needs no replay."""

from typing import Any

import pytest

from controlplane.contract.bodies.studies import KnobRange, Objective, StudyCreate
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.online_checks import OF_REPLAYS
from controlplane.contract.planning.online_mode import OnlineMode
from controlplane.contract.planning.study_checks import check_spec
from controlplane.contract.reports.declared_knobs import DeclaredKnob

WATERMARK = {"watermark": [DeclaredKnob(change_class="live", start=0.0, minimum=0.0, maximum=0.9)]}
OF_BOTH = {
    *("pool", "objective", "objective_q", "constraints", "space", "max_trials", "max_duration_s", "rollout"),
    *("reason", "online"),
}
"""Fields of either kind of study."""


def online(**more: Any) -> StudyCreate:
    return StudyCreate.model_validate({"pool": "chat", "online": OnlineMode(), **more})


def test_every_field_is_of_replays_or_of_both() -> None:
    assert set(StudyCreate.model_fields) == OF_BOTH | set(OF_REPLAYS)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"also": [Objective(objective="tpot", objective_q=0.5)]}, "also"),
        ({"node_hour_price": 2.0, "currency": "EUR"}, "node_hour_price"),
        ({"workload": "profile:chat@4"}, "workload"),
        ({"trial_requests": 80}, "trial_requests"),
        ({"space": {"watermark": KnobRange(choices=[0.0, 0.1])}}, "space.watermark"),
        ({"rollout": {"only_better": True}}, "rollout.only_better"),
    ],
)
def test_what_has_no_meaning_there_is_refused_by_its_field(more: dict[str, Any], field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        check_spec(online(**more), WATERMARK)
    assert refused.value.detail["field"] == field and "online" in refused.value.message


def test_a_tail_is_judged_on_live_traffic_however_few_a_trial_would_replay() -> None:
    check_spec(online(objective="ttft", objective_q=0.99))
    with pytest.raises(BadRequest, match="trial_requests"):
        check_spec(StudyCreate(pool="chat", objective="ttft", objective_q=0.99))
