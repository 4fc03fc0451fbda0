"""What a spool remembers beside its reports: its stream, and the newest report whose file has gone.

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
from controlplane.contract.reports.packed_report import STREAM_BYTES

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SpoolState:
    """`stream` is empty before the first report, and where an earlier agent wrote the file."""

    stream: bytes = b""
    ordinal: int = 0
    position: Position | None = None

    def save(self, file: Path) -> None:
        """Put it in place, durably. Raises OSError; then the file is as it was."""
        content: dict[str, str | int] = {"stream": self.stream.hex(), "ordinal": self.ordinal}
        if self.position is not None:
            content |= {"boot": self.position.boot, "seq": self.position.seq}
        write_durably(file, json.dumps(content).encode())

    @classmethod
    def load(cls, file: Path) -> Self:
        """What was saved; the empty state where there is nothing, or nothing that can be read."""
        try:
            state = json.loads(file.read_bytes())
            stream = bytes.fromhex(state.get("stream", ""))
            position = Position(str(state["boot"]), int(state["seq"])) if "boot" in state else None
            return cls(stream if len(stream) == STREAM_BYTES else b"", int(state["ordinal"]), position)
        except FileNotFoundError:
            return cls()
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.error("%s is damaged, a new stream begins: %s", file, error)
            return cls()
