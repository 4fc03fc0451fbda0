"""How urgent a rule is where nobody says: a symptom as the catalogue has it, everything else is a page. Pure."""

from typing import TypeVar

from controlplane.alerts.symptoms.symptom_catalogue import symptom
from controlplane.contract.bodies.alerts import AlertRuleCreate, Severity, SymptomCondition

R = TypeVar("R", bound=AlertRuleCreate)


def with_severity(wanted: R) -> R:
    """The rule with its severity said. Raises `BadRequest` for a symptom that there is not."""
    if wanted.severity is not None:
        return wanted
    condition = wanted.condition
    usual = symptom(condition.symptom).severity if isinstance(condition, SymptomCondition) else Severity.PAGE
    return wanted.model_copy(update={"severity": usual})
