"""Which alerts are held back because another one says the same (inhibition). The first half is pure.

What a rule holds back is told as silences that last as long as their source fires: with the alert, or the rule, they
end. Guarantees: an alert that is held back itself holds back none, so that no two hide each other; one that is both
source and target of a rule is no source of it; what is held back is shown, and told once its source has ended.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from sqlmodel import Session, select

from controlplane.alerts import store
from controlplane.alerts.channels.payload import labels_told
from controlplane.alerts.matching.label_match import matches
from controlplane.alerts.rules.silence import OF_NO_SILENCE
from controlplane.alerts.tables import AlertRow, InhibitRuleRow
from controlplane.alerts.view import inhibit_rule_view
from controlplane.contract.bodies.alerts import OURS, AlertState, InhibitRule, Silence

FIRST, LAST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC)


def held_by(rules: Iterable[InhibitRule], sources: Iterable[Mapping[str, str]]) -> list[Silence]:
    """What alerts with these labels, which fire and are told, hold back: once, however many hold back the same."""
    told = list(sources)
    return [_silence(rule, equal) for rule in rules for equal in _held_equal(rule, told)]


def _held_equal(rule: InhibitRule, told: Iterable[Mapping[str, str]]) -> set[tuple[str, ...]]:
    """The values of the labels that must agree, of the alerts that are sources of the rule."""
    return {
        tuple(labels[name] for name in rule.equal)
        for labels in told
        if all(name in labels for name in rule.equal)
        and matches(rule.source, labels)
        and not matches(rule.target, labels)
    }


def _silence(rule: InhibitRule, equal: tuple[str, ...]) -> Silence:
    return Silence(
        id=OF_NO_SILENCE,
        matchers={**rule.target.matchers, **dict(zip(rule.equal, equal, strict=True))},
        patterns=rule.target.patterns,
        starts_at=FIRST,
        ends_at=LAST,
        created_by=rule.name,
        comment=f"inhibit rule {rule.name!r}",
    )


def held_now(session: Session) -> list[Silence]:
    """By the rules that there are, of the alerts that fire and are not held back."""
    rules = [inhibit_rule_view(row) for row in session.exec(select(InhibitRuleRow))]
    if not rules:
        return []
    told = select(AlertRow.labels, AlertRow.rule, AlertRow.severity).where(
        AlertRow.source == OURS,  # Who may post alerts must not hold back ours by them.
        AlertRow.state == AlertState.FIRING.value,
        AlertRow.silenced == False,  # noqa: E712
    )
    return held_by(rules, [labels_told(*columns) for columns in session.exec(told)])


def holding_now(session: Session, now: datetime) -> list[Silence]:
    """All that holds alerts back: what people silenced, and what inhibit rules hold back while their sources fire."""
    return [*store.silences_now(session, now), *held_now(session)]
