"""Rows as the API shows them."""

from controlplane.alerts.tables import AlertRow, AlertRuleRow, DeliveryRow, DestinationRow, SilenceRow
from controlplane.contract.bodies.alerts import Alert, AlertRule, Delivery, Destination, Silence


def rule_view(row: AlertRuleRow) -> AlertRule:
    return AlertRule.model_validate(row.model_dump())


def alert_view(row: AlertRow) -> Alert:
    return Alert.model_validate(row.model_dump())


def destination_view(row: DestinationRow) -> Destination:
    """Without the secret, only whether there is one; of the URL the scheme and the host."""
    assert row.id is not None
    return Destination(
        id=row.id, name=row.name, url=row.shown, signed=bool(row.secret), enabled=row.enabled, created_at=row.created_at
    )


def delivery_view(row: DeliveryRow) -> Delivery:
    return Delivery.model_validate(row.model_dump())


def silence_view(row: SilenceRow) -> Silence:
    return Silence.model_validate(row.model_dump())
