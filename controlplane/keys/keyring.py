"""The keys of one service: a file of them, and which of them the database names as the one in use.

Guarantee: a secret is encrypted with the key that the database names at that moment, which a rotation changes in the
transaction that encrypts every secret anew; a key that the file has got since it was read is found. A service does not
start where its file lacks the key in use.

The file has a key a line, in hexadecimal; lines that begin with # are remarks.
"""

import secrets
import threading
from pathlib import Path
from typing import Final

from sqlmodel import Session, col, select

from controlplane.contract.errors import BadSettings
from controlplane.db.database import Database
from controlplane.keys.encryption import KEY_BYTES, NONCE_BYTES, Encrypted, Key, Place, Undecryptable
from controlplane.keys.tables import EncryptionKeyRow
from controlplane.serving import owned_files

FIELD: Final = "secrets_key_file"
_HEAD: Final = """\
# The keys of Tailwright's secrets in the database. Without them its webhooks are lost: keep a copy apart from the
# database's backups. `tailwright secrets rotate` puts another in their place.
"""


class Keyring:
    """Thread-safe. own: whether the file is the service's own, in its data folder, which nobody mounts there."""

    def __init__(self, file: Path, *, own: bool = True) -> None:
        self.file = file
        self._own = own
        self._lock = threading.Lock()
        self._keys: dict[str, Key] = {}

    @property
    def key_ids(self) -> list[str]:
        """Of the keys in the file, as it is now. Raises BadSettings."""
        with self._lock:
            self._read()
            return list(self._keys)

    def open(self, database: Database) -> None:
        """Make the first key where the database has none yet; raises BadSettings where its key is not in the file."""
        with database.session() as session:
            row = session.exec(select(EncryptionKeyRow).with_for_update()).one()
            if row.key_id is None:
                # The file first: a start that is killed before the commit leaves a key that the next start takes.
                row.key_id = next(iter(self.key_ids), None) or self.add()
                session.add(row)
            elif self.find(row.key_id) is None:
                raise BadSettings(self.lacks(row.key_id), field=FIELD)

    def lacks(self, key_id: str) -> str:
        """What is said where a key is not in the file."""
        there = "does not hold" if self.file.exists() else "is not there, and so not"
        return (
            f"{FIELD}: {self.file} {there} the key {key_id} that secrets in the database are encrypted with: put the "
            "file there that holds it (every replica needs the same); where it is lost, `tailwright secrets forget` "
            "removes what nobody can read any more"
        )

    def encrypt(self, session: Session, place: Place, text: str) -> Encrypted:
        """With the key in use; no rotation ends before the session's transaction. Raises `Undecryptable`."""
        return self.key(in_use(session)).encrypt(place, text, secrets.token_bytes(NONCE_BYTES))

    def decrypt(self, place: Place, stored: str) -> str:
        """Raises `Undecryptable`."""
        encrypted = Encrypted(stored)
        return self.key(encrypted.key_id).decrypt(place, encrypted)

    def key(self, key_id: str) -> Key:
        """Raises `Undecryptable` where the file lacks it."""
        found = self.find(key_id)
        if found is None:
            raise Undecryptable(self.lacks(key_id), field=FIELD)
        return found

    def find(self, key_id: str) -> Key | None:
        with self._lock:
            if key_id not in self._keys:
                self._read()
            return self._keys.get(key_id)

    def add(self) -> str:
        """Make another key, and write it to the file; its id. Raises BadSettings."""
        made = Key(secrets.token_bytes(KEY_BYTES))
        with self._lock:
            self._read()
            self._write({**self._keys, made.id: made})
        return made.id

    def keep(self, key_id: str) -> None:
        """Take every other key out of the file. Raises BadSettings."""
        kept = self.key(key_id)
        with self._lock:
            self._write({key_id: kept})

    def _read(self) -> None:
        text = owned_files.read(self.file, FIELD, mounted=not self._own) or ""
        lines = [line.strip() for line in text.splitlines()]
        try:
            keys = [Key(bytes.fromhex(line)) for line in lines if line and not line.startswith("#")]
        except ValueError as error:
            said = f"{FIELD}: {self.file} is no file of keys, of 64 hexadecimal digits a line: put the right one there"
            raise BadSettings(said, field=FIELD) from error
        self._keys = {key.id: key for key in keys}

    def _write(self, keys: dict[str, Key]) -> None:
        text = _HEAD + "".join(f"{key.secret.hex()}\n" for key in keys.values())
        try:
            if not self._own and self.file.is_symlink():
                raise PermissionError("it is mounted: change it where it comes from")
            owned_files.write(self.file, text)
        except OSError as error:
            said = f"{FIELD}: {self.file} cannot be written: {error.strerror or error}"
            raise BadSettings(said, field=FIELD) from error
        self._keys = keys


def in_use(session: Session) -> str:
    """The id of the key in use, which stays so until the session's transaction ends. Raises `Undecryptable`."""
    query = select(col(EncryptionKeyRow.key_id)).with_for_update(read=True)
    found = session.exec(query).one()
    if found is None:
        raise Undecryptable("the database names no key for secrets: start the service once", field=FIELD)
    return found
