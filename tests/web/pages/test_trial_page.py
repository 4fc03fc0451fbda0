"""The page of a rule that is tried: what it asks for, and what it refuses."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from controlplane.alerts.conditions import KINDS
from controlplane.contract.bodies.alerts import AlertRule, DryRun, SymptomCondition
from controlplane.contract.errors import BadRequest, NotFound
from web.frame.selection import Selection
from web.pages.alerts_page import NOT_TRIED
from web.pages.trial_page import whole

NOW = datetime(2030, 1, 1, tzinfo=UTC)
RULE = AlertRule(id=3, name="r", condition=SymptomCondition(symptom="errors"), created_at=NOW)


class Calls:
    """The calls that the page makes."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def alert_rules(self) -> list[AlertRule]:
        return [RULE]

    def dry_run_rule(self, wanted: dict[str, Any]) -> DryRun:
        self.asked.append(wanted)
        return DryRun(
            start=NOW, end=NOW, judged_to=NOW, width_s=5, pools=[], fired=0, a_week=0, firing_s=0, times=[], notes=[]
        )


def opened(calls: Calls, **own: str) -> Any:
    return whole(cast(Any, calls), Selection(NOW, own=own))


def test_the_rule_is_tried_as_it_is_over_the_span_of_the_address() -> None:
    calls = Calls()
    assert opened(calls, rule="3")["over"] == "1d" and opened(calls, rule="3", over="8h")["trial"].fired == 0
    assert [one["window_s"] for one in calls.asked] == [86400.0, 28800.0]
    assert calls.asked[0]["rule"]["condition"]["symptom"] == "errors" and "id" not in calls.asked[0]["rule"]


def test_no_other_rule_and_no_other_span_is_tried() -> None:
    with pytest.raises(NotFound):
        opened(Calls(), rule="4")
    with pytest.raises(BadRequest, match="over: wants a number"):
        opened(Calls(), rule="3", over="long")


def test_the_button_stands_at_those_kinds_that_can_be_tried() -> None:
    cannot = {condition.model_fields["kind"].default for condition, kind in KINDS.items() if not kind.dry_run_step_s}
    assert cannot == NOT_TRIED
