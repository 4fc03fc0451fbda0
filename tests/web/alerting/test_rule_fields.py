"""The form of an alert rule: what it says is the rule that it was, and what is wrong is told at its field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.alerts.conditions import KINDS as JUDGED
from controlplane.alerts.rules.defaults import DEFAULT_RULES
from controlplane.contract.bodies.alerts import (
    AbsoluteCondition,
    AlertRuleCreate,
    BurnRateCondition,
    Remedy,
    Severity,
    SymptomCondition,
)
from controlplane.contract.bodies.remedies import RemedyPolicy
from controlplane.contract.bodies.slo import Limit, UseCase
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.contract.errors import BadRequest
from web.alerting.rule_fields import (
    KINDS,
    USUAL_SEVERITY,
    field_of,
    fields_of,
    in_words,
    rule_said,
    severities_of,
    usual_said,
    wanted_rule,
)
from web.frame.model_fields import length_words

LIMITS = [Limit(metric="ttft", q=0.95, limit_s=0.6), Limit(metric="e2e", q=0.999, limit_s=90)]
MADE = (
    AlertRuleCreate(name="limits", pool="chat", enabled=False, condition=AbsoluteCondition(limits=LIMITS)),
    AlertRuleCreate(name="slo", condition=BurnRateCondition(profile=UseCase.AGENT, period_s=7 * 86400.0)),
    AlertRuleCreate(name="own", condition=SymptomCondition(symptom="errors", threshold=1e-3, for_s=12.5)),
)


@pytest.mark.parametrize("rule", [*DEFAULT_RULES, *MADE], ids=lambda rule: rule.name)
def test_a_form_says_the_rule_that_it_was(rule: AlertRuleCreate) -> None:
    assert wanted_rule(rule_said(rule), rule.remedy) == rule


def test_every_kind_that_is_judged_has_a_form() -> None:
    assert set(KINDS.values()) == set(JUDGED)
    for kind in KINDS:
        assert {field.name for field in fields_of(kind)} == set(KINDS[kind].model_fields) - {"kind"}
        assert all(field.title and field.hint.endswith(".") for field in fields_of(kind))


@given(st.floats(1e-3, 1e8).map(lambda seconds: float(f"{seconds:.6g}")))
def test_a_length_is_read_as_it_was(seconds: float) -> None:
    said = {**usual_said("absolute"), "name": "r", "limits": f"ttft p95 {length_words(min(seconds, 86400.0))}"}
    condition = wanted_rule(said).condition
    assert isinstance(condition, AbsoluteCondition)
    assert condition.limits[0].limit_s == pytest.approx(min(seconds, 86400.0), rel=1e-9)


@pytest.mark.parametrize(
    ("limit", "q", "limit_s"),
    [("ttft p95 600ms", 0.95, 0.6), ("ttft 0.95 <= 0.6", 0.95, 0.6), ("itl p99.9 < 2 m", 0.999, 120.0)],
)
def test_a_limit_is_written_as_people_do(limit: str, q: float, limit_s: float) -> None:
    rule = wanted_rule({**usual_said("absolute"), "name": "r", "limits": limit})
    assert isinstance(rule.condition, AbsoluteCondition)
    assert (rule.condition.limits[0].q, rule.condition.limits[0].limit_s) == (q, limit_s)


@pytest.mark.parametrize(
    ("kind", "changed", "field"),
    [
        ("absolute", {"name": ""}, "name"),
        ("absolute", {"limits": "ttft under a second"}, "limits"),
        ("absolute", {"limits": "ttft p95"}, "limits"),
        ("absolute", {"limits": "ttft p120 1s"}, "limits"),
        ("absolute", {"window_s": "soon"}, "window_s"),
        ("absolute", {"window_s": "1s"}, "window_s"),
        ("absolute", {"min_count": "many"}, "min_count"),
        ("absolute", {"severity": "loud"}, "severity"),
        ("absolute", {"remedy": "magic"}, "remedy"),
        ("regression", {"q": "p95, most"}, "q"),
        ("symptom", {"symptom": ""}, "symptom"),
    ],
)
def test_what_is_wrong_is_told_at_its_field(kind: str, changed: dict[str, str], field: str) -> None:
    with pytest.raises(BadRequest) as refused:
        wanted_rule({**usual_said(kind), "name": "r", "limits": "ttft p95 1s", **changed})
    assert refused.value.detail["field"] == field


def test_the_apis_fields_are_found_in_the_form() -> None:
    said = usual_said("absolute")
    assert field_of("rule.condition.limits[0].metric", said) == "limits"
    assert field_of("remedy.study.objective", said) == "remedy"
    assert field_of("rule.condition.kind", said) == ""


def test_a_kind_that_there_is_not_is_refused() -> None:
    with pytest.raises(BadRequest, match="kind: wants one of absolute"):
        wanted_rule({"kind": "magic", "name": "r"})


def test_of_a_remedy_the_form_changes_the_policy_alone() -> None:
    before = Remedy(study=StudyCreate(pool="chat", objective="ttft"), cooldown_s=7.0)
    said = {**usual_said("regression"), "name": "r", "remedy": "automatic"}
    after = wanted_rule(said, before).remedy
    assert after == before.model_copy(update={"policy": RemedyPolicy.AUTOMATIC})
    assert wanted_rule(said | {"remedy": ""}, before).remedy is None


def test_a_rule_is_told_in_a_line() -> None:
    assert [in_words(rule) for rule in MADE] == ["ttft p95 600ms, e2e p99.9 90s", "the limits of agent", "errors"]
    assert in_words(DEFAULT_RULES[0]) == "the stages of a request at p95, p99 against their baseline"
    assert in_words(AlertRuleCreate(name="d", condition=KINDS["drift"]())) == "a node does not run what it should"


def test_a_new_symptom_is_as_urgent_as_the_catalogue_has_it_and_says_so() -> None:
    said = {**usual_said("symptom"), "name": "r", "symptom": "kv_near_full"}
    assert said["severity"] == "" and severities_of("symptom")[""] == USUAL_SEVERITY
    assert wanted_rule(said).severity is None
    for kind in KINDS:
        assert usual_said(kind)["severity"] in severities_of(kind)
    assert wanted_rule({**usual_said("drift"), "name": "r"}).severity is Severity.PAGE
