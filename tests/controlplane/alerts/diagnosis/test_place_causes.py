"""What is told where nothing that is measured explains a slowdown."""

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.alerts.diagnosis.place_causes import unknown
from controlplane.contract.channels.inbound import EVENT_POSTED
from controlplane.contract.on_call.attribution import Attribution, EventBefore

AT = datetime(2030, 1, 1, 12, tzinfo=UTC)
NOTHING = "nothing else that is measured changed with it"


def after(kind: str, lag_s: float) -> Attribution:
    message = "deploy: gateway 4.2.1"
    event = EventBefore(time=AT - timedelta(seconds=lag_s), kind=kind, subject="event/1", message=message, lag_s=lag_s)
    return Attribution(metric="ttft", q=0.99, before_s=0.1, during_s=0.2, places=[], after=event)


@pytest.mark.parametrize(
    ("attribution", "message"),
    [
        (None, NOTHING),
        (after("node.enrolled", 54.0), NOTHING),
        (after(EVENT_POSTED, 54.0), f"{NOTHING}; deploy: gateway 4.2.1 came 54.0 s before it began"),
        (after(EVENT_POSTED, -3.0), f"{NOTHING}; deploy: gateway 4.2.1 came as it began"),
    ],
)
def test_a_mark_of_others_is_told_beside_it(attribution: Attribution | None, message: str) -> None:
    assert unknown(attribution) == {"cause": "unknown", "score": 0.0, "message": message}
