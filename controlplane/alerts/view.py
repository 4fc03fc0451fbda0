"""Rows as the API shows them."""

from controlplane.alerts.tables import AlertRow, AlertRuleRow, DeliveryRow, InhibitRuleRow, SilenceRow
from controlplane.contract.bodies.alerts import Alert, AlertRule, InhibitRule, Silence
from controlplane.contract.channels.destinations import Delivery


def rule_view(row: AlertRuleRow) -> AlertRule:
    return AlertRule.model_validate(row.model_dump())


def alert_view(row: AlertRow) -> Alert:
    return Alert.model_validate(row.model_dump())


def delivery_view(row: DeliveryRow) -> Delivery:
    return Delivery.model_validate(row.model_dump())


def silence_view(row: SilenceRow) -> Silence:
    return Silence.model_validate(row.model_dump())


def inhibit_rule_view(row: InhibitRuleRow) -> InhibitRule:
    return InhibitRule.model_validate(row.model_dump())
