"""A real engine with the bundled model behind a real socket, and its records as the control plane would list them."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.engine.core.engine import Engine
from controlplane.contract import metrics
from tests.agents.engine.serving import eventually, serving

BUNDLED = Path(__file__).resolve().parents[3] / "agents/models/tailwright-py-5m"
MODEL = "tiny"
PROMPT = "def double(x):\n    return"
WHOLE = {"temperature": 0, "ignore_eos": True}
_PARTS = (metrics.E2E, metrics.TTFT, *metrics.REQUEST_PARTS)


@dataclass(frozen=True)
class FinishedRequest:
    """What `join` needs of a server's record."""

    request_id: str
    node: str
    parts: dict[str, float]


class ServedEngine:
    def __init__(self, engine: Engine, url: str) -> None:
        self.engine, self.url = engine, url

    def records(self, *wanted: str) -> list[FinishedRequest]:
        """Of these request ids: waited for, as the engine notes an end after the client has seen it."""
        found: list[FinishedRequest] = eventually(lambda: self._all_of(set(wanted)))
        return found

    def _all_of(self, wanted: set[str]) -> list[FinishedRequest]:
        events: list[Any] = [event for event in self.engine.log.after(0, 10**6) if event["kind"] == "finished"]
        found = [
            FinishedRequest(
                event["request_id"],
                "node-a",
                {part.short: event[part.short] for part in _PARTS if event[part.short] is not None},
            )
            for event in events
            if event["request_id"] in wanted
        ]
        return found if {record.request_id for record in found} == wanted else []


@contextlib.contextmanager
def served_engine() -> Iterator[ServedEngine]:
    with serving(BUNDLED) as (engine, url):
        yield ServedEngine(engine, url)
