"""A key service's command in a test: wraps with an AES key in the file that KEY_SERVICE names; a new one each rotation.

Run as `key_service.py wrap|unwrap` (docs/security.md), or as Vault's command line is by deploy/vault/transit.sh.
The file has a key a line, the newest last. Each run is noted in the file beside it, *.log.
"""

import os
import re
import sys
from base64 import b64decode, b64encode
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM


def keys(file: Path) -> list[AESGCM]:
    return [AESGCM(bytes.fromhex(line)) for line in file.read_text().split()]


def wrap(file: Path, text: bytes) -> str:
    held, nonce = keys(file), os.urandom(12)
    return f"vault:v{len(held)}:{b64encode(nonce + held[-1].encrypt(nonce, text, None)).decode()}"


def unwrap(file: Path, wrapped: str) -> bytes:
    form = re.fullmatch(r"vault:v(\d+):(\S+)", wrapped)
    assert form is not None
    data = b64decode(form[2])
    return keys(file)[int(form[1]) - 1].decrypt(data[:12], data[12:], None)


def main(arguments: list[str]) -> None:
    file, given = Path(os.environ["KEY_SERVICE"]), sys.stdin.read()
    with file.with_suffix(".log").open("a") as log:
        log.write(f"{arguments[-1]} {[name for name in os.environ if name.startswith('TAILWRIGHT_')]}\n")
    match arguments:
        case ["wrap"]:
            print(wrap(file, given.strip().encode()))
        case ["unwrap"]:
            print(unwrap(file, given.strip()).decode())
        case ["write", "-field=ciphertext", "transit/encrypt/tailwright", "plaintext=-"]:
            print(wrap(file, b64decode(given, validate=True)), end="")
        case ["write", "-field=plaintext", "transit/decrypt/tailwright", "ciphertext=-"]:
            print(b64encode(unwrap(file, given)).decode(), end="")
        case _:
            sys.exit(f"what is {arguments}?")


if __name__ == "__main__":
    main(sys.argv[1:])
