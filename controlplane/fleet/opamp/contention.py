"""Agents that contend for one node: counted by the doorkeeper, and told in the log with the node's name.

Guarantee: whatever agents do, a node has at most one line in `QUIET_S`. A socket that is replaced now and then is an
agent that was restarted or has lost its network; `FLAPS` in that time are two agents.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from cachetools import LRUCache

from controlplane.serving.limits import Doorkeeper, Refused

logger = logging.getLogger(__name__)

QUIET_S = 600.0
FLAPS = 3
NODES_REMEMBERED = 4096


@dataclass
class _Seen:
    """Of one node since `began_s`."""

    began_s: float
    replaced: int = 0
    refused: int = 0
    told: bool = False


class Contention:
    """Of one process; called on its event loop."""

    def __init__(self, door: Doorkeeper, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._door = door
        self._monotonic = monotonic
        self._seen: LRUCache[str, _Seen] = LRUCache(NODES_REMEMBERED)

    def replaced(self, node: str | None) -> None:
        """A newer socket of this node took the place of one (None: of one that had not said whose it is)."""
        self._door.refuse(Refused.OPAMP_REPLACED)
        if node is None:
            return
        seen = self._of(node)
        seen.replaced += 1
        if seen.replaced >= FLAPS:
            self._tell(node, seen)

    def refused(self, node: str) -> None:
        """A report of an agent that began before the one that holds this node was not heard."""
        self._door.refuse(Refused.OPAMP_RIVAL)
        seen = self._of(node)
        seen.refused += 1
        self._tell(node, seen)

    def _of(self, node: str) -> _Seen:
        now_s = self._monotonic()
        seen = self._seen.get(node)
        if seen is None or now_s - seen.began_s >= QUIET_S:
            seen = self._seen[node] = _Seen(now_s)
        return seen

    def _tell(self, node: str, seen: _Seen) -> None:
        if seen.told:
            return
        seen.told = True
        logger.warning(
            "node %s: more than one agent speaks for it (%d connections replaced, %d reports of an older agent refused "
            "in %.0f s): enrol each under a name of its own, or end one",
            *(node, seen.replaced, seen.refused, self._monotonic() - seen.began_s),
        )
