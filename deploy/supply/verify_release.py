"""`python -m deploy.supply.verify_release PUBLIC_KEY FOLDER` checks a release: the signature, and each file it names.

Ends with 0 where all is as it was signed, else with 1 and what is wrong. What else lies in the folder is not looked at.
"""

import hashlib
import re
import sys
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from deploy.supply.release_signing import SIGNATURE, SUMS

_LINE = re.compile(r"([0-9a-f]{64})  ([A-Za-z0-9][A-Za-z0-9._+-]*)")


class NotAsSigned(Exception):
    """The release is not what the key's owner has signed, or cannot be read; the message says which file and how."""


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m deploy.supply.verify_release PUBLIC_KEY FOLDER", file=sys.stderr)
        return 2
    try:
        names = verified(Path(arguments[1]), public_key(Path(arguments[0])))
    except NotAsSigned as error:
        print(f"BAD  {error}", file=sys.stderr)
        return 1
    for name in names:
        print(f"ok   {name}")
    return 0


def public_key(file: Path) -> Ed25519PublicKey:
    """Raises NotAsSigned."""
    try:
        key = load_pem_public_key(_read(file))
    except (ValueError, UnsupportedAlgorithm) as error:
        raise NotAsSigned(f"{file} holds no public key in PEM") from error
    if not isinstance(key, Ed25519PublicKey):
        raise NotAsSigned(f"{file} holds a key of another kind than Ed25519")
    return key


def verified(folder: Path, key: Ed25519PublicKey) -> list[str]:
    """The names of the files that are as they were signed: all that `SHA256SUMS` has. Raises NotAsSigned."""
    sums = _read(folder / SUMS)
    try:
        key.verify(_read(folder / SIGNATURE), sums)
    except InvalidSignature:
        raise NotAsSigned(f"{folder / SIGNATURE} is no signature of {SUMS} by this key") from None
    names = []
    for line in sums.decode("ascii").splitlines():
        form = _LINE.fullmatch(line)
        if form is None:
            raise NotAsSigned(f"{folder / SUMS} has a line that is no SHA-256 and file name: {line!r}")
        digest, name = form.groups()
        if hashlib.sha256(_read(folder / name)).hexdigest() != digest:
            raise NotAsSigned(f"{folder / name} is not the file that was signed")
        names.append(name)
    if not names:
        raise NotAsSigned(f"{folder / SUMS} names no file")
    return names


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise NotAsSigned(f"{file} cannot be read: {error.strerror or error}") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
