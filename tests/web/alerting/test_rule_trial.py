"""What a rule's trial draws: the quantile that the rule is about, its limit, and the times that it would have fired."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from controlplane.contract.bodies.alerts import (
    AbsoluteCondition,
    AlertRuleCreate,
    Condition,
    DryRun,
    RegressionCondition,
    SymptomCondition,
    WouldHaveFired,
)
from controlplane.contract.bodies.slo import Limit, UseCase
from controlplane.contract.bodies.telemetry import QuantilesAnswer
from controlplane.contract.errors import BadRequest
from web.alerting.rule_trial import Watched, tried, watched_by

END = datetime(2030, 1, 8, tzinfo=UTC)
LIMITS = [Limit(metric="ttft", q=0.95, limit_s=0.6), Limit(metric="itl", q=0.99, limit_s=0.2)]


def fired(**labels: str) -> WouldHaveFired:
    at = END - timedelta(hours=1)
    return WouldHaveFired(
        labels=labels, started_at=at, fired_at=at, resolved_at=at + timedelta(minutes=5), lasted_s=300, summary="slow"
    )


class Past:
    """The calls that a trial makes, over a past in which the rule fired once."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def dry_run_rule(self, wanted: dict[str, Any]) -> DryRun:
        self.asked.append(wanted)
        start = END - timedelta(seconds=wanted["window_s"])
        counted = {"fired": 1, "a_week": 1, "firing_s": 300, "times": [fired(metric="itl", q="0.99")]}
        return DryRun(start=start, end=END, judged_to=END, width_s=60, pools=["chat"], notes=[], **counted)

    def quantiles(self, metric: str, q: tuple[float, ...], **asked: Any) -> QuantilesAnswer:
        self.asked.append((metric, q, asked))
        points = [{"time": asked["start"], "count": 9, "quantiles": {f"{q[0]:g}": 0.3}}]
        series = {"labels": {}, "count": 9, "mean": 0.1, "relative_error": 0.02, "quantiles": {}, "points": points}
        told = {"metric": metric, "unit": "s", "relative_error": 0.02, "series": [series]}
        return QuantilesAnswer.model_validate({**told, "start": asked["start"], "end": asked["end"]})


def rule_of(condition: Condition) -> AlertRuleCreate:
    return AlertRuleCreate(name="r", pool="chat", condition=condition)


def test_what_fired_is_drawn_with_its_limit() -> None:
    past = Past()
    found = tried(cast(Any, past), rule_of(AbsoluteCondition(limits=LIMITS)), "7d")
    assert past.asked[0]["window_s"] == 7 * 86400 and past.asked[0]["rule"]["pool"] == "chat"
    metric, q, asked = past.asked[1]
    assert (metric, q, asked["pool"]) == ("itl", (0.99,), "chat")
    chart = found["drawing"]["chart"]
    assert [line["name"] for line in chart.values["lines"]] == ["limit", "p99"]
    assert [mark.kind for mark in chart.marks] == ["alert", "resolved"]


@pytest.mark.parametrize(
    ("condition", "times", "watched"),
    [
        (AbsoluteCondition(limits=LIMITS), [], Watched("ttft", 0.95, 0.6)),
        (AbsoluteCondition(limits=LIMITS), [fired(metric="itl", q="0.99")], Watched("itl", 0.99, 0.2)),
        (AbsoluteCondition(profile=UseCase.BATCH), [], Watched("e2e", 0.99, 300.0)),
        (RegressionCondition(q=[0.9]), [fired(metric="itl")], Watched("itl", 0.9)),
        (RegressionCondition(), [], Watched("prefill", 0.95)),
        (RegressionCondition(metrics=["ttft"]), [fired(metric="elsewhere")], Watched("ttft", 0.95)),
        (SymptomCondition(symptom="errors"), [fired(metric="ttft")], None),
    ],
)
def test_what_a_rule_is_about(condition: Condition, times: list[WouldHaveFired], watched: Watched | None) -> None:
    assert watched_by(rule_of(condition), times) == watched


def test_a_rule_about_no_latency_has_no_chart_and_no_other_span_is_tried() -> None:
    assert tried(cast(Any, Past()), rule_of(SymptomCondition(symptom="errors")), "1h")["drawing"] is None
    with pytest.raises(BadRequest, match="over: wants a number"):
        tried(cast(Any, Past()), rule_of(SymptomCondition(symptom="errors")), "long")
