"""What a spool remembers beside its reports: whose it is, and the newest report whose file has gone.

Guarantee: what `save` has written is what `load` finds, whole, after a crash or a power cut; a file that is damaged
gives the empty state, so that nobody goes on with half of one.
"""

import json
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from agents.backends.base import Position
from agents.host.durable_file import write_durably

log = logging.getLogger(__name__)

MACHINE_ID = Path("/etc/machine-id")


@dataclass(frozen=True)
class Owner:
    """The node whose reports these are, and the machine it runs on; empty where a machine does not say who it is."""

    node: str = ""
    machine: str = ""

    @classmethod
    def here(cls, node: str, file: Path = MACHINE_ID) -> Self:
        try:
            return cls(node, file.read_text(encoding="utf-8").strip())
        except (OSError, UnicodeDecodeError):
            return cls(node)

    def __str__(self) -> str:
        return f"node {self.node!r} on machine {self.machine or 'unknown'}"


@dataclass(frozen=True)
class SpoolState:
    """`owner` is None before the first report."""

    owner: Owner | None = None
    ordinal: int = 0
    position: Position | None = None

    def save(self, file: Path) -> None:
        """Put it in place, durably. Raises OSError; then the file is as it was."""
        content: dict[str, str | int] = {"ordinal": self.ordinal}
        if self.owner is not None:
            content |= {"node": self.owner.node, "machine": self.owner.machine}
        if self.position is not None:
            content |= {"boot": self.position.boot, "seq": self.position.seq}
        write_durably(file, json.dumps(content).encode())

    @classmethod
    def load(cls, file: Path) -> Self:
        """What was saved; the empty state where there is nothing, or nothing that can be read."""
        try:
            state = json.loads(file.read_bytes())
            owner = Owner(str(state["node"]), str(state["machine"])) if "node" in state else None
            position = Position(str(state["boot"]), int(state["seq"])) if "boot" in state else None
            return cls(owner, int(state["ordinal"]), position)
        except FileNotFoundError:
            return cls()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.error("%s is damaged, its position is lost: %s", file, error)
            return cls()
