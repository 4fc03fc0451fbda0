"""What a destination would be told with other templates: rendered as a real letter is, and not sent. Pure."""

from dataclasses import replace
from datetime import datetime

from controlplane.alerts.channels.alert_template import rendered, sample
from controlplane.alerts.channels.channel import Notification, Status
from controlplane.alerts.channels.registry import CHANNELS
from controlplane.alerts.channels.wording import text_of, title_of
from controlplane.contract.bodies.alerts import Alert
from controlplane.contract.channels.destinations import DestinationPreview, DestinationPreviewed


def previewed(
    wanted: DestinationPreview, alert: Alert | None, now: datetime, external_url: str
) -> DestinationPreviewed:
    """The templates are checked. `body` is empty where the kind has no word for the status, and gets no letter."""
    channel, status = CHANNELS[wanted.kind], Status(wanted.status)
    if alert is None:
        usual = replace(sample(status), external_url=external_url)
    else:
        usual = Notification(alert, status, "preview", external_url, now)
    own = replace(
        usual,
        title=None if wanted.title_template is None else rendered(wanted.title_template, usual, channel.escape),
        text=None if wanted.text_template is None else rendered(wanted.text_template, usual, channel.escape),
    )
    body = channel.render(own) if status in channel.tells else ""
    return DestinationPreviewed(title=title_of(own), text=text_of(own), body=body)
