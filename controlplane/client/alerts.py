"""Alerts: rules, what fired, where it is told, and what is kept quiet."""

from controlplane.client.connection import Connection
from controlplane.contract.bodies.alerts import (
    Alert,
    AlertRule,
    AlertRuleCreate,
    Delivery,
    Destination,
    DestinationCreate,
    Silence,
    SilenceCreate,
)


class AlertCalls(Connection):
    """Rules, alerts, destinations, silences."""

    def alert_rules(self) -> list[AlertRule]:
        return list(self.every(AlertRule, "/api/v1/alert-rules"))

    def create_alert_rule(self, wanted: AlertRuleCreate) -> AlertRule:
        return self._one(AlertRule, "POST", "/api/v1/alert-rules", body=wanted)

    def update_alert_rule(self, rule_id: int, wanted: AlertRuleCreate) -> AlertRule:
        return self._one(AlertRule, "PUT", f"/api/v1/alert-rules/{rule_id}", body=wanted)

    def delete_alert_rule(self, rule_id: int) -> None:
        self._request("DELETE", f"/api/v1/alert-rules/{rule_id}")

    def alerts(self, state: str | None = None) -> list[Alert]:
        """Newest first."""
        return list(self.every(Alert, "/api/v1/alerts", state=state))

    def alert(self, alert_id: int) -> Alert:
        return self._one(Alert, "GET", f"/api/v1/alerts/{alert_id}")

    def destinations(self) -> list[Destination]:
        return list(self.every(Destination, "/api/v1/destinations"))

    def create_destination(self, wanted: DestinationCreate) -> Destination:
        return self._one(Destination, "POST", "/api/v1/destinations", body=wanted)

    def delete_destination(self, destination_id: int) -> None:
        self._request("DELETE", f"/api/v1/destinations/{destination_id}")

    def deliveries(self, alert_id: int | None = None) -> list[Delivery]:
        return list(self.every(Delivery, "/api/v1/deliveries", alert_id=alert_id))

    def silences(self) -> list[Silence]:
        return list(self.every(Silence, "/api/v1/silences"))

    def create_silence(self, wanted: SilenceCreate) -> Silence:
        return self._one(Silence, "POST", "/api/v1/silences", body=wanted)

    def end_silence(self, silence_id: int) -> None:
        self._request("DELETE", f"/api/v1/silences/{silence_id}")
