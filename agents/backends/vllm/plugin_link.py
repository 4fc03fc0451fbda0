"""The agent's end of the folder that it shares with the plugin inside vLLM.

Guarantee: whatever the plugin writes is checked before it is believed; a folder, socket or file that is missing or
damaged is `EngineUnreachable` with the mend, never a guess.
"""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import orjson

from agents.backends.base import EngineUnreachable, Position
from agents.backends.vllm.further_knobs import knob_file_parts, with_queue_limits
from controlplane.contract.reports.engine_event import EngineEvent, Hello

EVENTS_SOCKET = "events.sock"
KNOBS = "knobs.json"
EFFECTIVE = "effective.json"
PLUGIN = "plugin.json"
QUEUE_LIMITS = "queue_limits.json"
"""Names inside the folder, those of tailwright_vllm/folder.py."""

_CONNECT_TIMEOUT_S = 5.0
_LARGEST_LINE_BYTES = 4 * 2**20
_SPEAKS_TIMEOUT_S = 1.0
_POLL_S = 0.002
_SLOW_POLL_S = 0.02
_PATIENCE_S = 0.5
"""After so long the scheduler is looked at less often."""


class PluginLink:
    """One vLLM server's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def events(self, position: Position | None) -> AsyncGenerator[Hello | EngineEvent]:
        """The plugin's stream from a position on; see `Backend.events`."""
        path = self.folder / EVENTS_SOCKET
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                reader, writer = await asyncio.open_unix_connection(path, limit=_LARGEST_LINE_BYTES)
        except (OSError, TimeoutError) as error:
            raise EngineUnreachable(f"{path}: {error or 'no answer'}; is vLLM running with the plugin?") from error
        try:
            asked = {} if position is None else {"boot": position.boot, "after": max(position.seq, 0)}
            writer.write(orjson.dumps(asked) + b"\n")
            async for line in reader:
                if isinstance(event := orjson.loads(line), dict):
                    yield event  # type: ignore[misc]
        except (OSError, ValueError) as error:
            raise EngineUnreachable(f"{path}: {error}") from error
        finally:
            writer.close()
        raise EngineUnreachable("vLLM's plugin ended its event stream")

    def read_effective(self, oldest: float = 0.0) -> dict[str, Any]:
        """What the scheduler says it runs, and the server process of its queue limits, unless it said that before
        `oldest` (Unix seconds)."""
        path = self.folder / EFFECTIVE
        try:
            told = orjson.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise EngineUnreachable(
                f"{path} cannot be read ({error}); "
                "start vLLM with --scheduler-cls tailwright_vllm.scheduler.live_scheduler"
            ) from error
        if not isinstance(told, dict) or not isinstance(told.get("knobs"), dict):
            raise EngineUnreachable(f"{path} is not what the plugin writes")
        queue = queue_limits_of(self._read(QUEUE_LIMITS), self.read_installation())
        return with_queue_limits(told, queue if queue.get("time", 0.0) >= oldest else {})

    def read_installation(self) -> dict[str, Any]:
        """What the plugin says of itself at vLLM's start; empty when it says nothing."""
        return self._read(PLUGIN)

    def _read(self, name: str) -> dict[str, Any]:
        try:
            told = orjson.loads((self.folder / name).read_bytes())
        except (OSError, ValueError):
            return {}
        return told if isinstance(told, dict) else {}

    def why_no_statistics(self) -> str:
        """The plugin's own word on why it hands on no raw statistics; empty when it has none."""
        return _why_off(self.read_installation(), "raw_statistics")

    def why_no_limits(self) -> str:
        """The same for limits that move live."""
        return _why_off(self.read_installation(), "live_limits")

    async def speaks(self) -> bool:
        """Does a plugin answer at the socket?"""
        try:
            async with asyncio.timeout(_SPEAKS_TIMEOUT_S):
                reader, writer = await asyncio.open_unix_connection(self.folder / EVENTS_SOCKET)
                try:
                    writer.write(b"{}\n")
                    return b'"hello"' in await reader.readline()
                finally:
                    writer.close()
        except (OSError, ValueError, TimeoutError):
            return False

    def write_knobs(
        self, revision: int, knobs: Mapping[str, Any], asked: float | None = None, more: Mapping[str, Any] | None = None
    ) -> None:
        """Ask the plugin for these limits. `asked`: when the wish was received, Unix seconds. Raises OSError.

        `more`: those of `further_knobs.py`, of which an older plugin passes over the parts that it does not know.

        Readers see the old file or the new one. It is not synced to the disk: a step takes a few milliseconds, and
        after a power cut vLLM begins anew as well.
        """
        body: dict[str, Any] = {"revision": revision, "knobs": dict(knobs)}
        if asked is not None:
            body["asked"] = asked
        body.update(knob_file_parts(more or {}))
        scratch = self.folder / f".{KNOBS}.{os.getpid()}"
        scratch.write_bytes(orjson.dumps(body))
        os.replace(scratch, self.folder / KNOBS)

    async def settled(self, asked: float, written: float, timeout_s: float, *, queue: bool = False) -> dict[str, Any]:
        """What the scheduler says once it has followed the wish of `asked`, or refused it (`error`).

        `written`: when the knob file was written, Unix seconds; an error told before is not about it. `queue`: the
        server process has to have done so, too.
        """
        begun, late = time.monotonic(), "scheduler"
        while (waited_s := time.monotonic() - begun) < timeout_s:
            told = self.read_effective()
            waited_for = {"scheduler": told, **({"server process": told["queue_limits"]} if queue else {})}
            late = next((name for name, one in waited_for.items() if not _is_about(one, asked, written)), "")
            if not late:
                return {**told, "error": next((one["error"] for one in waited_for.values() if one.get("error")), "")}
            await asyncio.sleep(_POLL_S if waited_s < _PATIENCE_S else _SLOW_POLL_S)
        raise EngineUnreachable(f"vLLM's {late} did not take up {self.folder / KNOBS} within {timeout_s:g} s")


def queue_limits_of(told: dict[str, Any], installation: dict[str, Any]) -> dict[str, Any]:
    """What a server process told of its queue limits, if it is the one that runs; else empty."""
    process = told.get("process")
    return told if process is not None and process == installation.get("process") else {}


def _is_about(told: dict[str, Any], asked: float, written: float) -> bool:
    """Has who tells this followed the wish, or refused it?"""
    newer = told.get("time", 0.0) >= written
    return bool(told.get("asked") == asked or (newer and (told.get("error") or "asked" not in told)))


def _why_off(installation: dict[str, Any], part: str) -> str:
    told = installation.get(part)
    if not isinstance(told, dict) or told.get("on", True):
        return ""
    return str(told.get("why") or "the plugin does not say why")
