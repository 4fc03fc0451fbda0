"""Secrets at rest: encrypted in the database, with keys in a file that lies outside it and its backups."""

from controlplane.keys.encryption import Encrypted, Place, Undecryptable
from controlplane.keys.key_command import KeyCommand
from controlplane.keys.keyring import Keyring

__all__ = ["Encrypted", "KeyCommand", "Keyring", "Place", "Undecryptable"]
