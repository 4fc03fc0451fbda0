"""Signs what is released: `SHA256SUMS` names each file with its SHA-256, `SHA256SUMS.sig` is its Ed25519 signature.

Who has the public key can check them without this code, by `openssl` and `sha256sum` (docs/security.md, "Supply
chain"). `python -m deploy.supply.release_signing KEY` makes a key: KEY, of mode 600, and its public half KEY.pub.
"""

import hashlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from controlplane.contract.errors import BadSettings
from controlplane.serving import owned_files

VARIABLE = "TAILWRIGHT_SIGNING_KEY"
"""Names the file of the key that `make wheel` signs with."""
SUMS, SIGNATURE = "SHA256SUMS", "SHA256SUMS.sig"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m deploy.supply.release_signing KEY", file=sys.stderr)
        return 2
    file = Path(arguments[0])
    try:
        public = new_key(file)
    except FileExistsError as error:
        print(f"signing: {error.filename} is there already: name another file", file=sys.stderr)
        return 1
    print(f"{file} signs, {public} is to be published; sha256:{hashlib.sha256(public.read_bytes()).hexdigest()}")
    return 0


def new_key(file: Path) -> Path:
    """Make a key, PEM without a passphrase; the file of its public half. Raises FileExistsError, else OSError."""
    key = Ed25519PrivateKey.generate()
    public = file.with_name(file.name + ".pub")
    texts = {
        file: (key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600),
        public: (key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), 0o644),
    }
    for path, (text, mode) in texts.items():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode), "wb") as stream:
            stream.write(text)
    return public


def read_key(file: Path) -> Ed25519PrivateKey:
    """Raises BadSettings for a file that others may write to, that is not there, or that holds no such key."""
    text = owned_files.read(file, VARIABLE, mounted=True)
    if text is None:
        raise BadSettings(
            f"{VARIABLE}: {file} is not there; `python -m deploy.supply.release_signing {file}` makes a key"
        )
    try:
        key = load_pem_private_key(text.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadSettings(f"{VARIABLE}: {file} holds no key in PEM without a passphrase: {error}") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise BadSettings(f"{VARIABLE}: {file} holds a key of another kind than Ed25519")
    return key


def write_sums(folder: Path, files: Iterable[Path]) -> Path:
    """Write `SHA256SUMS` of files in the folder, as sha256sum reads it; a signature of earlier ones goes."""
    sums = folder / SUMS
    (folder / SIGNATURE).unlink(missing_ok=True)
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in sorted(files)]
    sums.write_text("".join(lines), encoding="ascii")
    return sums


def sign(sums: Path, key: Ed25519PrivateKey) -> Path:
    """The signature's file, beside what it signs."""
    signature = sums.with_name(SIGNATURE)
    signature.write_bytes(key.sign(sums.read_bytes()))
    return signature


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
