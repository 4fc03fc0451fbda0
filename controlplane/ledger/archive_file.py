"""Archives of the ledger: files of the oldest entries, each with its hash, and the signed head of the last.

A file has a JSON object a line: first {"tailwright_ledger_archive": 1, "after": {"id", "hash"}}, what its first entry
follows; then the entries; last {"head": {"id", "hash", "signature"}}. Its own chain tells whether it is whole.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controlplane.contract.bodies.ledger import LedgerHead
from controlplane.contract.errors import BadRequest
from controlplane.ledger.chain import Content, Head, Link

MARK = "tailwright_ledger_archive"
VERSION = 1


def lines(after: Head, entries: Iterable[Link], head: LedgerHead) -> Iterator[str]:
    """The file's lines."""
    yield json.dumps({MARK: VERSION, "after": {"id": after.id, "hash": after.hash}}) + "\n"
    for link in entries:
        said = {**vars(link.content), "time": link.content.time.astimezone(UTC).isoformat(timespec="microseconds")}
        yield json.dumps({"id": link.id, **said, "hash": link.hash}, ensure_ascii=True) + "\n"
    yield json.dumps({"head": head.model_dump()}) + "\n"


def after_of(path: Path) -> Head:
    """What the file's first entry follows. Raises `BadRequest`."""
    with path.open(encoding="ascii") as file:
        try:
            first = json.loads(file.readline())
            if first[MARK] != VERSION:
                raise ValueError
            return Head(int(first["after"]["id"]), str(first["after"]["hash"]))
        except (ValueError, KeyError, TypeError):
            raise BadRequest(f"{path}: is no archive of the ledger", field="archive") from None


def head_of(path: Path) -> LedgerHead:
    """The signed head of its last entry. Raises `BadRequest` for a file that has been cut off."""
    last = ""
    with path.open(encoding="ascii", errors="replace") as file:
        for line in file:
            last = line
    try:
        return LedgerHead.model_validate(json.loads(last)["head"])
    except (ValueError, KeyError, TypeError):
        raise BadRequest(
            f"{path}: is no whole archive of the ledger: its last line is no head", field="archive"
        ) from None


def links(paths: Sequence[Path]) -> Iterator[Link]:
    """The entries of several archives, the oldest archive first, as they stand there. Raises `BadRequest`, OSError."""
    for path in sorted(paths, key=lambda path: after_of(path).id):
        with path.open(encoding="ascii", errors="replace") as file:
            next(file)
            for number, line in enumerate(file, 2):
                try:
                    said = json.loads(line)
                    if "head" in said:
                        break
                    yield _link(said)
                except (ValueError, KeyError, TypeError, AttributeError):
                    raise BadRequest(f"{path}: line {number} is no entry of the ledger", field="archive") from None


def _link(said: dict[str, Any]) -> Link:
    content = Content(
        datetime.fromisoformat(said["time"]),
        str(said["actor"]),
        str(said["kind"]),
        str(said["subject"]),
        str(said["message"]),
        dict(said["evidence"]),
    )
    return Link(int(said["id"]), content, str(said["hash"]))
