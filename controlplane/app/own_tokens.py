"""The tokens of the dashboard and the tuner worker beside it are changed while the service runs.

Guarantee: the file holds a token that counts at all times; the one before it counts for `OVERLAP` more, so that whoever
has read it can read the file again. A process that dies between the two steps leaves a token that nobody knows.
"""

from datetime import datetime, timedelta
from pathlib import Path

from sqlmodel import Session

from controlplane import ledger
from controlplane.app.secrets_files import DASHBOARD, TUNER, SecretFile, read
from controlplane.auth import store
from controlplane.auth.tables import TokenRow
from controlplane.db.database import Database
from controlplane.serving import owned_files

LASTS = timedelta(days=30)
"""As the tokens of nodes (`--node-token-days`)."""
OVERLAP = timedelta(days=1)
"""More than the 12 h of a browser's session: none is cut off that was begun with the token before."""
PERIOD_S = 3600.0


class OwnTokens:
    """Of one folder of data."""

    def __init__(self, database: Database, data_dir: Path) -> None:
        self._database = database
        self._data_dir = data_dir

    def tick(self, now: datetime) -> None:
        """Another token for each file whose own is old; an end to those that were replaced. Raises BadSettings, OSError
        for a file that cannot be used."""
        for file in (TUNER, DASHBOARD):
            held = read(self._data_dir, file)
            with self._database.session() as session:
                made = _next(session, file, held, now)
            if made is not None:
                owned_files.write(self._data_dir / file.filename, made + "\n")


def _next(session: Session, file: SecretFile, held: str, now: datetime) -> str | None:
    """The token that takes the file's place, where it is time. None: it stays."""
    view = store.find(session, held)
    if view is None:
        return None  # Somebody has revoked it: the next start makes another.
    row = session.get_one(TokenRow, view.id)
    if row.replaces is not None and now - row.created_at >= OVERLAP:
        store.end(session, session.get_one(TokenRow, row.replaces), now)
        row.replaces = None
        session.add(row)
    if now - row.created_at < LASTS:
        return None
    made, token = store.issue(session, name=file.name, scope=file.scope, now=now, replaces=row.id)
    message = f"token {file.name!r} takes the place of token {row.id}, which ends in {OVERLAP.days * 24} h"
    ledger.append(session, now, ledger.SERVICE, "token.rotated", f"token/{made.id}", message)
    return token
