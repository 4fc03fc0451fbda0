"""The agent's end of the folder that it shares with the plugin inside vLLM.

Guarantee: whatever the plugin writes is checked before it is believed; a folder, socket or file that is missing or
damaged is `EngineUnreachable` with the mend, never a guess.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from agents.backend import EngineUnreachable, Position
from agents.durable_file import write_durably
from controlplane.contract.engine_event import EngineEvent, Hello

EVENTS_SOCKET = "events.sock"
KNOBS = "knobs.json"
EFFECTIVE = "effective.json"
"""Names inside the folder, those of trimtab_vllm/folder.py."""

_CONNECT_TIMEOUT_S = 5.0
_LARGEST_LINE_BYTES = 4 * 2**20
_POLL_S = 0.01


class PluginLink:
    """One vLLM server's folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def events(self, position: Position | None) -> AsyncIterator[Hello | EngineEvent]:
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

    def read_effective(self) -> dict[str, Any]:
        """What the scheduler says it runs."""
        path = self.folder / EFFECTIVE
        try:
            told = orjson.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise EngineUnreachable(
                f"{path} cannot be read ({error}); "
                "start vLLM with --scheduler-cls trimtab_vllm.scheduler.live_scheduler"
            ) from error
        if not isinstance(told, dict) or not isinstance(told.get("knobs"), dict):
            raise EngineUnreachable(f"{path} is not what the plugin writes")
        return told

    def write_knobs(self, revision: int, knobs: Mapping[str, Any]) -> None:
        """Ask the scheduler for these limits. Raises OSError."""
        write_durably(self.folder / KNOBS, orjson.dumps({"revision": revision, "knobs": dict(knobs)}))

    async def settled(self, asked_at: float, timeout_s: float) -> dict[str, Any]:
        """What the scheduler says once it has looked at what was asked at `asked_at` (Unix seconds)."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            told = self.read_effective()
            if told.get("time", 0.0) >= asked_at:
                return told
            await asyncio.sleep(_POLL_S)
        raise EngineUnreachable(f"vLLM's scheduler did not take up {self.folder / KNOBS} within {timeout_s:g} s")
