"""Which processes on this host serve the same pool: a folder in which each agent names its engine and itself.

Guarantee: a process counts as serving only while an agent that lives names it, by number and start; a file that cannot
be read, or whose agent is gone, names nobody.
"""

import contextlib
import json
import logging
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from agents.host import process
from agents.host.process import Identity

log = logging.getLogger(__name__)


def default_folder() -> Path:
    """One for all agents of a user, gone with the machine's temporary files."""
    return Path(tempfile.gettempdir()) / f"tailwright-host-{os.getuid()}"


class Neighbours:
    """`serves`: what this agent's engine is part of, its pool; None for one that takes no production traffic."""

    def __init__(
        self, folder: Path, serves: str | None, proc: Path = process.PROC, agent_pid: int | None = None
    ) -> None:
        self._folder = folder
        self._serves = serves
        self._proc = proc
        self._pid = os.getpid() if agent_pid is None else agent_pid
        self._told: list[Identity] | None = None
        self._failed = False

    def tell(self, engine: Iterable[Identity]) -> None:
        """Name this agent's engine; written only when it is another than before."""
        own = process.read(self._pid, self._proc)
        identities = sorted(engine)
        if own is None or identities == self._told:
            return
        content = json.dumps({"serves": self._serves, "agent": own.identity, "engine": identities})
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            scratch = self._folder / f".{self._pid}"
            scratch.write_text(content)
            scratch.rename(self._path)
        except OSError as error:
            if not self._failed:
                log.warning(
                    "%s cannot be written: other agents here count this engine as others' use: %s", self._path, error
                )
            self._failed = True
            return
        self._told = identities

    def of_the_fleet(self) -> dict[Identity, int]:
        """Clock ticks of CPU of the other engines of this pool, and of all agents, on this host."""
        found: dict[Identity, int] = {}
        own = process.read(self._pid, self._proc)
        if own is not None:
            found[own.identity] = own.cpu_ticks
        for path in self._folder.glob("*.json"):
            if path == self._path:
                continue
            content = _read(path)
            agent = self._living(content.get("agent"))
            if agent is None:
                with contextlib.suppress(OSError):
                    path.unlink()  # Its agent was killed.
                continue
            found[agent.identity] = agent.cpu_ticks
            if content.get("serves") is not None and content["serves"] == self._serves:
                for named in content.get("engine", []):
                    if (living := self._living(named)) is not None:
                        found[living.identity] = living.cpu_ticks
        return found

    def leave(self) -> None:
        """This agent ends."""
        with contextlib.suppress(OSError):
            self._path.unlink()

    @property
    def _path(self) -> Path:
        return self._folder / f"{self._pid}.json"

    def _living(self, named: Any) -> process.ProcessTimes | None:
        match named:
            case [int(pid), int(start)]:
                found = process.read(pid, self._proc)
                return found if found is not None and found.identity == (pid, start) else None
        return None


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
