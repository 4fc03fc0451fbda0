"""A symptom nobody called a page wakes nobody; what is said stays said."""

import pytest

from controlplane.alerts.symptoms.symptom_catalogue import catalogue
from controlplane.alerts.symptoms.usual_severity import with_severity
from controlplane.contract.bodies.alerts import AlertRuleCreate, DriftCondition, Severity, SymptomCondition
from controlplane.contract.errors import BadRequest


@pytest.mark.parametrize("name", [name for name, one in catalogue().items() if one.limit is not None])
def test_a_symptom_is_as_urgent_as_its_runbook_says(name: str) -> None:
    wanted = AlertRuleCreate(name="r", condition=SymptomCondition(symptom=name))
    assert with_severity(wanted).severity is catalogue()[name].severity


def test_any_other_rule_is_a_page() -> None:
    assert with_severity(AlertRuleCreate(name="r", condition=DriftCondition())).severity is Severity.PAGE


@pytest.mark.parametrize("severity", list(Severity))
def test_what_is_said_stays(severity: Severity) -> None:
    wanted = AlertRuleCreate(name="r", condition=SymptomCondition(symptom="kv_near_full"), severity=severity)
    assert with_severity(wanted) is wanted


def test_a_symptom_that_there_is_not() -> None:
    with pytest.raises(BadRequest, match="did you mean 'kv_near_full'"):
        with_severity(AlertRuleCreate(name="r", condition=SymptomCondition(symptom="kv_near_ful")))
