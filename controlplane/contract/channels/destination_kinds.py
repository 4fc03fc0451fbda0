"""The kinds of destination as data: what each is called, and what of a destination it wants, may have or has not.

One row a kind: the API's checks, the page's form and the command read it here; the class that speaks a kind's protocol
stands in `controlplane/alerts/channels`.
"""

from dataclasses import dataclass
from enum import StrEnum


class DestinationKind(StrEnum):
    """What a destination is, and so how it is spoken to."""

    WEBHOOK = "webhook"  # Signed JSON, in the form of Alertmanager's webhooks with ours beside it.
    ALERTMANAGER = "alertmanager"  # Alertmanager's own API, version 2.
    SLACK = "slack"  # An incoming webhook of a Slack app.
    SLACK_APP = "slack_app"  # Slack's chat.postMessage with an app's token.
    PAGERDUTY = "pagerduty"  # Events API, version 2.
    OPSGENIE = "opsgenie"  # Alert API; an alert's alias is its fingerprint.
    TEAMS = "teams"  # A workflow's webhook of Microsoft Teams, with an adaptive card.
    EMAIL = "email"  # SMTP.


@dataclass(frozen=True)
class Wants:
    """url, sender, recipients, secret, login: what each is, in words; "" where the kind has none.

    usual_url: where a destination that names no URL is spoken to; None: it must name one. secret_needed: it does not
    work without. per_minute: how many messages it takes where nobody says; None: as many as there are.
    callback_secret: what acknowledgements from there are signed with; "" where nobody can acknowledge there.
    """

    title: str
    url: str
    usual_url: str | None = None
    schemes: tuple[str, ...] = ("https", "http")
    secret: str = ""
    secret_needed: bool = False
    recipients: str = ""
    most_recipients: int = 0
    sender: str = ""
    login: str = ""
    callback_secret: str = ""
    per_minute: int | None = None


DESTINATION_KINDS: dict[DestinationKind, Wants] = {
    DestinationKind.WEBHOOK: Wants(
        title="Webhook",
        url="where alerts are posted, in the form of Alertmanager's webhooks",
        secret="what each delivery is signed with",
    ),
    DestinationKind.ALERTMANAGER: Wants(
        title="Alertmanager",
        url="Alertmanager's own address, such as http://alertmanager:9093",
        login="the user of its basic authentication, whose password is the secret",
        secret="its password, or with no login a bearer token",
    ),
    DestinationKind.SLACK: Wants(
        title="Slack, incoming webhook",
        url="the incoming webhook's URL",
        callback_secret="the app's signing secret: with it, a message has a button that acknowledges",
        per_minute=60,
    ),
    DestinationKind.SLACK_APP: Wants(
        title="Slack, app",
        url="Slack's method",
        usual_url="https://slack.com/api/chat.postMessage",
        secret="the app's bot token, with the scope chat:write",
        secret_needed=True,
        recipients="the channel, such as #on-call or its id",
        most_recipients=1,
        callback_secret="the app's signing secret: with it, a message has a button that acknowledges",
        per_minute=60,
    ),
    DestinationKind.PAGERDUTY: Wants(
        title="PagerDuty",
        url="the Events API; in the EU https://events.eu.pagerduty.com/v2/enqueue",
        usual_url="https://events.pagerduty.com/v2/enqueue",
        secret="the integration key",
        secret_needed=True,
        callback_secret="the secret of its webhook (version 3) that tells of acknowledgements",
        per_minute=120,
    ),
    DestinationKind.OPSGENIE: Wants(
        title="Opsgenie",
        url="the Alert API; in the EU https://api.eu.opsgenie.com/v2/alerts",
        usual_url="https://api.opsgenie.com/v2/alerts",
        secret="the API key",
        secret_needed=True,
        per_minute=120,
    ),
    DestinationKind.TEAMS: Wants(
        title="Microsoft Teams",
        url="the URL of the workflow that posts to the channel",
        per_minute=60,
    ),
    DestinationKind.EMAIL: Wants(
        title="E-mail",
        url="the mail server: smtp://HOST:587 (STARTTLS), smtps://HOST:465, or smtp+plain://HOST:25 (in clear)",
        schemes=("smtp", "smtps", "smtp+plain"),
        secret="the password of the login",
        login="the user who sends",
        recipients="who gets it: addresses",
        most_recipients=50,
        sender="the address it comes from",
        per_minute=60,
    ),
}
