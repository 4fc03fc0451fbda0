"""Every secret encrypted anew with another key.

Guarantee: at each moment the file holds the key of every secret in the database. One transaction encrypts all of them
and names the key; the key before leaves the file after that. Of several who rotate at once each waits for another.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, MetaData, select, update
from sqlmodel import Session, col
from sqlmodel import select as select_row

from controlplane import ledger
from controlplane.contract.errors import Conflict
from controlplane.db.database import Database
from controlplane.keys.encryption import Encrypted, Place
from controlplane.keys.keyring import Keyring
from controlplane.keys.tables import EncryptionKeyRow, encrypted_columns

SUBJECT = "secrets"


@dataclass(frozen=True)
class Stored:
    """One secret in the database."""

    place: Place
    text: Encrypted


def stored(connection: Connection, metadata: MetaData) -> list[Stored]:
    """Every secret that there is. metadata: of every domain's tables, whether or not anybody has imported them."""
    found = []
    for column in encrypted_columns(metadata):
        (key,) = column.table.primary_key.columns
        for row, text in connection.execute(select(key, column).where(column.is_not(None)).order_by(key)):
            found.append(Stored(Place(column.table.name, column.name, row), text))
    return found


def counts(connection: Connection, metadata: MetaData) -> Counter[str]:
    """How many secrets each key has encrypted, by its id."""
    return Counter(one.text.key_id for one in stored(connection, metadata))


def add_key(database: Database, keyring: Keyring) -> str:
    """Put another key into the file, for a later rotation; its id."""
    with database.session() as session:
        locked(session)
        return keyring.add()


def rotate(
    database: Database, keyring: Keyring, metadata: MetaData, now: datetime, *, actor: str = ledger.SERVICE
) -> tuple[str, int]:
    """Encrypt all with a key of the file that is not in use yet, or with a new one; its id, and how many were changed.

    Raises `Undecryptable` for a secret that cannot be read; BadSettings where the file cannot be read or written.
    Nothing has changed then, but that the file may hold one key more.
    """
    with database.session() as session:
        row = locked(session)
        spare = [key_id for key_id in keyring.key_ids if key_id != row.key_id]
        key_id = spare[0] if spare else keyring.add()
        row.key_id = key_id
        session.add(row)
        session.flush()
        secrets = stored(session.connection(), metadata)
        for one in secrets:
            _put(session, keyring, metadata, one)
        message = f"{len(secrets)} secrets encrypted with the new key {key_id}"
        ledger.append(session, now, actor, "secrets.rotated", SUBJECT, message)
    return key_id, len(secrets)


def drop_others(database: Database, keyring: Keyring, metadata: MetaData, key_id: str) -> bool:
    """Take the other keys out of the file; False where `key_id` is not the one in use any more.

    Raises BadSettings, and `Conflict` where another key is still needed.
    """
    with database.session() as session:
        if locked(session).key_id != key_id:
            return False
        still = counts(session.connection(), metadata).keys() - {key_id}
        if still:
            raise Conflict(f"secrets are still encrypted with the keys {', '.join(sorted(still))}: nothing is dropped")
        keyring.keep(key_id)
    return True


def _put(session: Session, keyring: Keyring, metadata: MetaData, one: Stored) -> None:
    table = metadata.tables[one.place.table]
    (key,) = table.primary_key.columns
    text = keyring.encrypt(session, one.place, keyring.decrypt(one.place, one.text))
    session.execute(update(table).where(key == one.place.row).values({one.place.column: text}))


def locked(session: Session) -> EncryptionKeyRow:
    """The row that names the key in use; nobody else changes it before the session's transaction ends."""
    return session.exec(select_row(EncryptionKeyRow).where(col(EncryptionKeyRow.id) == 1).with_for_update()).one()
