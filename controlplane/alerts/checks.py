"""Checks of what a person may write in a rule, a destination or a silence: each error names its field and the mend."""

from datetime import datetime
from urllib.parse import urlsplit

import httpx

from controlplane.alerts.channels import alert_template
from controlplane.alerts.channels.mail import is_mailbox
from controlplane.alerts.conditions import KINDS
from controlplane.alerts.matching.label_pattern import compiled
from controlplane.contract.bodies.alerts import AlertRuleCreate, InhibitRuleCreate, SilenceCreate, Silenced
from controlplane.contract.channels.destination_kinds import DESTINATION_KINDS, DestinationKind, Wants
from controlplane.contract.channels.destinations import DestinationCreate, DestinationPreview
from controlplane.contract.errors import BadRequest


def check_rule(wanted: AlertRuleCreate) -> None:
    """Raises `BadRequest` for what the types alone cannot refuse."""
    KINDS[type(wanted.condition)].check(wanted.condition)


def check_destination(wanted: DestinationCreate) -> None:
    """What the kind wants is there, what it has not is not. An empty secret would look signed and protect nothing."""
    wants = DESTINATION_KINDS[wanted.kind]
    _check_url(wanted, wants)
    for field, words in (("secret", wants.secret), ("callback_secret", wants.callback_secret)):
        _check_secret(wanted, field, words, needed=wants.secret_needed and field == "secret")
    for field, words in (("login", wants.login), ("sender", wants.sender), ("recipients", wants.recipients)):
        if getattr(wanted, field) and not words:
            raise BadRequest(f"{field}: a destination of kind {wanted.kind.value} has none; leave it out", field=field)
    if wants.recipients:
        _check_recipients(wanted, wants)
    if wants.sender and not is_mailbox(wanted.sender or ""):
        raise BadRequest("sender: wants an address, as in alerts@example.org", field="sender")
    _check_login(wanted)
    if wanted.only is not None:
        check_silenced(wanted.only, "only.")
    check_templates(wanted)


def check_templates(wanted: DestinationCreate | DestinationPreview) -> None:
    for field in ("title_template", "text_template"):
        template = getattr(wanted, field)
        if template is not None:
            alert_template.check(template, field)


def _check_url(wanted: DestinationCreate, wants: Wants) -> None:
    """A URL that cannot be called is refused here."""
    url = wanted.url or wants.usual_url or ""
    try:
        parts = urlsplit(url)
        host = parts.hostname and (httpx.URL(url).host if parts.scheme.startswith("http") else parts.hostname)
        port_is_one = parts.port is None or parts.port > 0
    except (httpx.InvalidURL, ValueError):
        host, port_is_one = "", False
    if not host or not port_is_one:
        raise BadRequest(f"url: is not a URL with a host; it wants {wants.url}", field="url")
    if parts.scheme not in wants.schemes:
        raise BadRequest(f"url: begins with {parts.scheme}://; it wants {wants.url}", field="url")


def _check_secret(wanted: DestinationCreate, field: str, words: str, *, needed: bool) -> None:
    secret = getattr(wanted, field)
    if secret is None and needed:
        raise BadRequest(f"{field}: is needed: {words}", field=field)
    if secret is not None and not words:
        raise BadRequest(f"{field}: a destination of kind {wanted.kind.value} has none; leave it out", field=field)
    if secret is not None and len(secret) < 8:
        raise BadRequest(f"{field}: at least 8 characters, or null for none", field=field)
    if secret is not None and not (secret.isascii() and secret.isprintable()):
        raise BadRequest(f"{field}: wants printable ASCII characters alone", field=field)


def _check_recipients(wanted: DestinationCreate, wants: Wants) -> None:
    if not 1 <= len(wanted.recipients) <= wants.most_recipients:
        many = f"1 to {wants.most_recipients}" if wants.most_recipients > 1 else "one"
        raise BadRequest(f"recipients: wants {many}: {wants.recipients}", field="recipients")
    for place, one in enumerate(wanted.recipients):
        name = f"recipients[{place}]"
        if wanted.kind is DestinationKind.EMAIL and not is_mailbox(one):
            raise BadRequest(f"{name}: {one[:80]!r} is no address, as in on-call@example.org", field=name)
        if not 1 <= len(one) <= 320 or not one.isprintable():
            raise BadRequest(f"{name}: wants 1 to 320 printable characters", field=name)


def _check_login(wanted: DestinationCreate) -> None:
    if wanted.login is None:
        return
    if not (wanted.login.isascii() and wanted.login.isprintable() and wanted.login.strip()):
        raise BadRequest("login: wants printable ASCII characters", field="login")
    if wanted.secret is None:
        raise BadRequest("login: wants its password as `secret`", field="login")
    if (wanted.url or "").startswith("smtp+plain://"):
        raise BadRequest("login: no password goes in clear; use smtp:// (STARTTLS) or smtps://", field="login")


def check_silenced(wanted: Silenced, within: str = "") -> None:
    """What alerts it is about: something, in patterns that are understood. within: the field that holds it, and "."."""
    if not wanted.matchers and not wanted.patterns:
        field = f"{within}matchers"
        raise BadRequest(f"{field}: give a label and its value, or a pattern in `patterns`", field=field)
    for label, text in wanted.patterns.items():
        try:
            compiled(text)
        except BadRequest as error:
            field = f"{within}patterns.{label}"
            raise BadRequest(f"{field}: {error.message}", field=field) from None


def check_inhibit_rule(wanted: InhibitRuleCreate) -> None:
    check_silenced(wanted.source, "source.")
    check_silenced(wanted.target, "target.")


def check_silence(wanted: SilenceCreate, now: datetime) -> None:
    check_silenced(wanted)
    check_end(wanted)
    if wanted.ends_at <= now:
        raise BadRequest(f"ends_at: {wanted.ends_at.isoformat()} is not in the future", field="ends_at")


def check_end(wanted: SilenceCreate) -> None:
    if wanted.ends_at.tzinfo is None:
        raise BadRequest("ends_at: give a timezone, as in 2030-01-01T00:00:00Z", field="ends_at")
