"""A file of keys for the databases of one test process, and destinations that are encrypted with it."""

import tempfile
from datetime import datetime
from functools import cache
from pathlib import Path

from controlplane.alerts import store
from controlplane.contract.channels.destinations import DestinationCreate
from controlplane.db.database import Database
from controlplane.keys import Keyring


@cache
def _keyring() -> Keyring:
    folder = tempfile.TemporaryDirectory()
    made = Keyring(Path(folder.name) / "secrets.key")
    made.add()
    _FOLDERS.append(folder)
    return made


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
"""They live as long as the process."""


def keyring_of(database: Database) -> Keyring:
    """A keyring whose key is this database's."""
    _keyring().open(database)
    return _keyring()


def add_destination(database: Database, url: str, now: datetime, *, name: str = "pager", secret: str = "") -> int:
    """Its number. Unlike the API's, the URL may be one that cannot be called."""
    wanted = DestinationCreate.model_construct(name=name, url=url, secret=secret or None, enabled=True)
    keyring = keyring_of(database)
    with database.session() as session:
        return store.create_destination(session, wanted, keyring, actor="t", now=now).id
