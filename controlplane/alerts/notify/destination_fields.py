"""A destination's row filled with what is wanted. Guarantee: its URL and its secrets are stored encrypted."""

from sqlmodel import Session

from controlplane.alerts.notify.kept_secrets import SECRETS
from controlplane.alerts.tables import DestinationRow, place_of
from controlplane.contract.channels.destination_kinds import DESTINATION_KINDS
from controlplane.contract.channels.destinations import DestinationCreate
from controlplane.contract.shown_url import masked
from controlplane.keys import Keyring
from controlplane.keys.kept_secret import Secret


def secrets_of(row: DestinationRow, keyring: Keyring) -> dict[str, Secret | None]:
    """By name, as they are there; None for one that is not."""
    assert row.id is not None
    return {name: Secret.read(keyring, place_of(row.id, name), getattr(row, name)) for name in SECRETS}


def fill(session: Session, row: DestinationRow, wanted: DestinationCreate, keyring: Keyring) -> None:
    """The row has its number already: what is encrypted is bound to it."""
    assert row.id is not None
    wants = DESTINATION_KINDS[wanted.kind]
    url = wanted.url or wants.usual_url or ""
    row.name, row.kind, row.shown, row.enabled = wanted.name, wanted.kind.value, masked(url), wanted.enabled
    row.login, row.sender, row.recipients = wanted.login, wanted.sender, wanted.recipients
    row.per_minute = wanted.per_minute or wants.per_minute
    row.only = None if wanted.only is None else wanted.only.model_dump(mode="json")
    row.title_template, row.text_template = wanted.title_template, wanted.text_template
    secrets = {"url": url, "secret": wanted.secret, "callback_secret": wanted.callback_secret}
    for column, text in secrets.items():
        stored = None if text is None else keyring.encrypt(session, place_of(row.id, column), text)
        setattr(row, column, stored)
