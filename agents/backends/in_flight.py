"""How many requests an engine had when it died: those that no event can tell of any more.

Guarantee: nothing is counted for an engine that ended its stream in order, nor for a connection that broke while the
engine lived on. What was in flight is what the last step left running and waiting, less what has ended since: requests
that came after the last step are not known, and not counted.
"""

from typing import Any

from agents.backends.base import Lost
from controlplane.contract.reports import finish_reasons


class InFlight:
    """One engine's, over its restarts. `see` every item of the stream; `broke` when it tore off."""

    def __init__(self) -> None:
        self._boot = ""
        self._open = 0
        self._revision = 0
        self._torn = False
        self._lost: Lost | None = None

    def see(self, item: Any) -> None:
        kind = item.get("kind")
        if kind == "hello":
            if self._torn and item.get("boot") != self._boot and self._open:
                self._lost = Lost(self._revision, {finish_reasons.DISCONNECT: self._open})
            if item.get("boot") != self._boot:
                self._open = 0
            self._boot, self._torn = item.get("boot"), False
        elif kind == "step":
            self._open, self._revision = item.get("running", 0) + item.get("waiting", 0), item.get("revision", 0)
        elif kind == "finished":
            self._open = max(0, self._open - 1)

    def broke(self) -> None:
        """The connection ended in the middle, or could not be made."""
        self._torn = True

    def take_lost(self) -> Lost | None:
        """What was lost since the last call."""
        lost, self._lost = self._lost, None
        return lost
