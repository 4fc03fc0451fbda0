"""The channels by kind: the only place that knows all of them."""

from controlplane.alerts.channels.alertmanager import Alertmanager
from controlplane.alerts.channels.channel import Channel
from controlplane.alerts.channels.mail import Mail
from controlplane.alerts.channels.opsgenie import Opsgenie
from controlplane.alerts.channels.pagerduty import PagerDuty
from controlplane.alerts.channels.slack import SlackApp, SlackWebhook
from controlplane.alerts.channels.teams import Teams
from controlplane.alerts.channels.webhook import Webhook
from controlplane.contract.channels.destination_kinds import DestinationKind

_ALL: tuple[Channel, ...] = (
    Webhook(),
    Alertmanager(),
    SlackWebhook(),
    SlackApp(),
    PagerDuty(),
    Opsgenie(),
    Teams(),
    Mail(),
)
CHANNELS: dict[DestinationKind, Channel] = {channel.kind: channel for channel in _ALL}
