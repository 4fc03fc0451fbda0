"""The ledger has how people sign in: a start with other settings than the last one's is an entry, which is told."""

from datetime import datetime

from sqlmodel import Session

from controlplane import ledger
from controlplane.app.sign_in_settings import SignInSettings

CHANGED = "sign_in.changed"
NOT_TOLD = frozenset({"oidc_client_secret_file", "oidc_ca_file"})
"""Names of files: what is in them is not compared."""


def keep(session: Session, settings: SignInSettings, now: datetime) -> None:
    """In the caller's transaction. The usual settings are what there was before the first entry."""
    fields = set(SignInSettings.model_fields) - NOT_TOLD
    present = SignInSettings.model_validate(settings.model_dump(include=fields)).model_dump(mode="json", include=fields)
    last = ledger.entries(session, before_id=None, limit=1, kind=CHANGED)
    before = last[0].evidence["settings"] if last else SignInSettings().model_dump(mode="json", include=fields)
    changed = sorted(name for name in fields if present[name] != before.get(name))
    if changed:
        message = f"how people sign in has changed: {', '.join(changed)}"
        ledger.append(session, now, ledger.SERVICE, CHANGED, "settings/sign_in", message, settings=present)
