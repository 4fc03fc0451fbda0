"""The ledger's signed heads in a file outside the database, a line for each that was seen.

Guarantee: a line is only ever added, and is on the disk when `keep` returns; a file that the system lets nobody but
append to (`chattr +a`, a share that keeps what it has) therefore holds every head that was told, also of a ledger that
was written anew since. A link is not followed. What a crash has cut off stands on a line of its own.
"""

import os
from datetime import datetime
from pathlib import Path

from pydantic import ValidationError

from controlplane.contract.bodies.ledger import LedgerHead
from controlplane.db.database import Database
from controlplane.ledger import inspection, signing
from controlplane.ledger.chain import Head

PERIOD_S = 60.0


class HeadFile:
    """`keep` is called every `PERIOD_S`. `key`: of the service's signature."""

    def __init__(self, database: Database, path: Path, key: bytes) -> None:
        self._database, self._path, self._key = database, path, key
        self._last: Head | None = None

    def keep(self, now: datetime) -> None:
        """Add the newest head, where it is another than the last. Raises OSError."""
        head = inspection.newest(self._database)
        if head == self._last:
            return
        told = signing.signed(head, self._key).model_dump_json()
        line = f'{{"time":"{now.isoformat(timespec="seconds")}",{told[1:]}\n'
        descriptor = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            size = os.fstat(descriptor).st_size
            torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
            file.write(b"\n" * torn + line.encode())
            os.fsync(descriptor)
        self._last = head


def heads_in(path: Path) -> tuple[list[LedgerHead], int]:
    """The heads in a file of such lines, or of a single one, and how many lines hold none. Raises OSError."""
    heads, wrong = [], 0
    for line in filter(None, map(bytes.strip, path.read_bytes().splitlines())):
        try:
            heads.append(LedgerHead.model_validate_json(line))
        except ValidationError:
            wrong += 1
    return heads, wrong
