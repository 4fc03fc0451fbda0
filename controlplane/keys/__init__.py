"""Secrets at rest: encrypted in the database, with keys in a file that lies outside it and outside its backups."""

from controlplane.keys.encryption import Encrypted, Place, Undecryptable
from controlplane.keys.keyring import Keyring

__all__ = ["Encrypted", "Keyring", "Place", "Undecryptable"]
