"""What the agent keeps on disk of the servers it has started, so that the next agent finds them.

Guarantee: a server's record is on disk before its process exists, and holds the process's identity (number, kernel
start time and boot of the machine) before vLLM's code runs in it: whenever an agent is killed, the next one finds every
server, and takes no other process for one. A damaged file is logged and counts as absent.
"""

import logging
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from agents.host.durable_file import write_durably
from controlplane.contract.errors import TailwrightError
from controlplane.contract.knobs import EngineConfig
from controlplane.contract.reports.declared_knobs import kept_config

log = logging.getLogger(__name__)


class ServerRecord(BaseModel):
    """One server. `pid`, `ticks` and `machine_boot` are written by the process itself as it begins (`launch.py`)."""

    model_config = ConfigDict(frozen=True)

    id: str
    port: int
    folder: Path  # Shared with the plugin.
    log: Path
    knobs: dict[str, Any]  # What it was started for.
    revision: int
    plugin: bool
    cwd: Path
    argv: list[str]
    declared: dict[str, str] = {}  # Each knob that the node file declared, and vLLM's argument of it.
    began: float  # Unix seconds.
    ca_file: Path | None = None  # Whose certificate it shows; None: it serves in clear.
    pid: int | None = None
    ticks: int | None = None
    machine_boot: str = ""
    served: bool = False  # Clients' requests went to it, or were about to.
    stream_boot: str = ""  # Of the plugin's stream, whose first `first_events` are not of clients: warm-up.
    first_events: int = 0

    @property
    def config(self) -> EngineConfig:
        return kept_config(self.knobs)


class Good(BaseModel):
    """The last configuration that worked, and the server that serves it."""

    model_config = ConfigDict(frozen=True)

    revision: int
    knobs: dict[str, Any]
    active: str = ""  # A record's id.

    @property
    def config(self) -> EngineConfig:
        return kept_config(self.knobs)


class Records:
    """The folder of records. Raises OSError when the disk does not take one."""

    def __init__(self, state_dir: Path) -> None:
        self._servers = state_dir / "servers"
        self._good = state_dir / "good.json"

    def make_folders(self) -> None:
        self._servers.mkdir(parents=True, exist_ok=True, mode=0o700)

    def path(self, server_id: str) -> Path:
        return self._servers / f"{server_id}.json"

    def write(self, record: ServerRecord) -> None:
        write_durably(self.path(record.id), record.model_dump_json().encode())

    def read(self, server_id: str) -> ServerRecord | None:
        """None when there is no such record, or a damaged one."""
        path = self.path(server_id)
        try:
            record = ServerRecord.model_validate_json(path.read_bytes())
            kept_config(record.knobs)
        except FileNotFoundError:
            return None
        except (OSError, ValidationError, TailwrightError) as error:
            log.error("%s is damaged, the server in it is not known any more: %s", path, error)
            return None
        return record

    def servers(self) -> list[ServerRecord]:
        """All of them, oldest first."""
        found = [record for path in self._servers.glob("*.json") if (record := self.read(path.stem)) is not None]
        return sorted(found, key=lambda record: record.began)

    def forget(self, server_id: str) -> None:
        self.path(server_id).unlink(missing_ok=True)

    def write_good(self, good: Good) -> None:
        write_durably(self._good, good.model_dump_json().encode())

    def good(self) -> Good | None:
        """None before the first server came up."""
        try:
            good = Good.model_validate_json(self._good.read_bytes())
            kept_config(good.knobs)
        except FileNotFoundError:
            return None
        except (OSError, ValidationError, TailwrightError) as error:
            log.error("%s is damaged, starting from the node file: %s", self._good, error)
            return None
        return good
