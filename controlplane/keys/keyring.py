"""The keys of one service: a file of them, and which of them the database names as the one in use.

Guarantee: a secret is encrypted with the key that the database names at that moment, which a rotation changes in the
transaction that encrypts every secret anew; a key that the file has got since it was read is found. A service does not
start where its file lacks the key in use.

The file has a key a line, in hexadecimal, or as `wrapped ID TEXT` where a command has wrapped it (`key_command.py`);
lines that begin with # are remarks. A wrapped key is unwrapped once, when it is first wanted.
"""

import re
import secrets
import threading
from pathlib import Path
from typing import Final

from sqlmodel import Session, col, select

from controlplane.contract.errors import BadSettings
from controlplane.db.database import Database
from controlplane.keys.encryption import KEY_BYTES, NONCE_BYTES, Encrypted, Key, Place, Undecryptable
from controlplane.keys.key_command import FIELD as COMMAND
from controlplane.keys.key_command import KeyCommand
from controlplane.keys.tables import EncryptionKeyRow
from controlplane.serving import owned_files

FIELD: Final = "secrets_key_file"
_WRAPPED: Final = re.compile(r"wrapped ([0-9a-f]{16}) ([!-~]+)")
_HEAD: Final = """\
# The keys of Tailwright's secrets in the database. Without them its webhooks are lost: keep a copy apart from the
# database's backups. `tailwright secrets rotate` puts another in their place.
"""


class Keyring:
    """Thread-safe. own: whether the file is the service's own, in its data folder, which nobody mounts there.

    command: wraps what is written from now on; None: keys are in clear.
    """

    def __init__(self, file: Path, *, own: bool = True, command: KeyCommand | None = None) -> None:
        self.file = file
        self.command = command
        self._own = own
        self._lock = threading.Lock()
        self._lines: dict[str, str] = {}
        """The file's, by the id of the key."""
        self._keys: dict[str, Key] = {}
        """Those that have been wanted."""

    @property
    def key_ids(self) -> list[str]:
        """Of the keys in the file that may be taken into use: wrapped ones alone where there is a command. Raises
        BadSettings."""
        with self._lock:
            self._read()
            return [key_id for key_id, line in self._lines.items() if self.command is None or _WRAPPED.fullmatch(line)]

    def refuse_clear(self) -> None:
        """Raise BadSettings where there is a command, and a key in the file that it has not wrapped."""
        with self._lock:
            self._read()
            clear = [line for line in self._lines.values() if not _WRAPPED.fullmatch(line)]
        if self.command is not None and clear:
            raise BadSettings(
                f"{COMMAND}: {self.file} has a key in clear: `tailwright secrets rotate` with this setting, while no "
                "service runs, puts a wrapped one in its place",
                field=COMMAND,
            )

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
        """None where the file lacks it. Raises BadSettings where the file or its command does not give it."""
        with self._lock:
            if key_id in self._keys:
                return self._keys[key_id]
            self._read()
            if (line := self._lines.get(key_id)) is None:
                return None
            return self._keys.setdefault(key_id, self._unwrapped(key_id, line))

    def add(self) -> str:
        """Make another key, and write it to the file; its id. Raises BadSettings."""
        made = Key(secrets.token_bytes(KEY_BYTES))
        with self._lock:
            self._read()
            line = made.secret.hex() if self.command is None else f"wrapped {made.id} {self.command.wrap(made.secret)}"
            self._write({**self._lines, made.id: line})
            self._keys[made.id] = made
        return made.id

    def keep(self, key_id: str) -> None:
        """Take every other key out of the file. Raises BadSettings."""
        kept = self.key(key_id)
        with self._lock:
            self._read()
            self._write({key_id: self._lines[key_id]})
            self._keys = {key_id: kept}

    def _read(self) -> None:
        text = owned_files.read(self.file, FIELD, mounted=not self._own) or ""
        lines = [line.strip() for line in text.splitlines()]
        try:
            self._lines = dict(_named(line) for line in lines if line and not line.startswith("#"))
        except ValueError as error:
            said = f"{FIELD}: {self.file} is no file of keys, of 64 hexadecimal digits a line: put the right one there"
            raise BadSettings(said, field=FIELD) from error

    def _unwrapped(self, key_id: str, line: str) -> Key:
        wrapped = _WRAPPED.fullmatch(line)
        if wrapped is None:
            return Key(bytes.fromhex(line))
        if self.command is None:
            said = (
                f"{COMMAND}: is not set, and {self.file} has the key {key_id} wrapped: set the command that unwraps it"
            )
            raise BadSettings(said, field=COMMAND)
        found = Key(self.command.unwrap(wrapped[2]))
        if found.id != key_id:
            said = f"{COMMAND}: gives another key than {key_id}: {self.file} was changed, or the command's master key"
            raise BadSettings(said, field=COMMAND)
        return found

    def _write(self, lines: dict[str, str]) -> None:
        text = _HEAD + "".join(f"{line}\n" for line in lines.values())
        try:
            if not self._own and self.file.is_symlink():
                raise PermissionError("it is mounted: change it where it comes from")
            owned_files.write(self.file, text)
        except OSError as error:
            said = f"{FIELD}: {self.file} cannot be written: {error.strerror or error}"
            raise BadSettings(said, field=FIELD) from error
        self._lines = lines


def _named(line: str) -> tuple[str, str]:
    """A line with its key's id. Raises ValueError for one of neither form."""
    wrapped = _WRAPPED.fullmatch(line)
    return (wrapped[1], line) if wrapped else (Key(bytes.fromhex(line)).id, line)


def in_use(session: Session) -> str:
    """The id of the key in use, which stays so until the session's transaction ends. Raises `Undecryptable`."""
    query = select(col(EncryptionKeyRow.key_id)).with_for_update(read=True)
    found = session.exec(query).one()
    if found is None:
        raise Undecryptable("the database names no key for secrets: start the service once", field=FIELD)
    return found
