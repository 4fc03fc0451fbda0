"""Frames that were decoded lately: dashboards ask for the same ones over and over.

Guarantee: a block is only given for the very bytes that it was decoded from; at most `bytes_held` are held, and none of
a frame that the store no longer keeps.
"""

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from cachetools import LRUCache
from numpy.typing import NDArray

from controlplane.telemetry.frames import frame
from controlplane.telemetry.frames.block import Block, HistogramBlock
from controlplane.telemetry.frames.frame_store import Frame, FrameKey
from controlplane.telemetry.frames.gather import FLEET

FLEET_BYTES, NODE_BYTES = 32 << 20, 64 << 20
"""The fleet's frames have room of their own: a look at all nodes over hours must not push them out."""
OBJECTS_BYTES = 2048
"""Of Python's objects around one block: key, entry, block and the heads of its arrays. Frames of one node for a short
while hold less than that."""


class _Held(NamedTuple):
    data: bytes
    block: Block
    size: int


class _Recent:
    """The blocks that were asked for last. Thread-safe; nobody changes a block that was read."""

    def __init__(self, bytes_held: int) -> None:
        self._lock = threading.Lock()
        self._blocks: LRUCache[FrameKey, _Held] = LRUCache(bytes_held, lambda held: held.size)

    def block(self, found: Frame) -> Block:
        with self._lock:
            held = self._blocks.get(found.key)
            if held is not None and held.data == found.data:
                return held.block
        block = frame.decode(found.data)
        held = _Held(found.data, block, OBJECTS_BYTES + len(found.data) + _nbytes(block))
        with self._lock, suppress(ValueError):  # One that takes more than all of the room is decoded each time.
            self._blocks[found.key] = held
        return block

    def forget(self, kept_from: Mapping[int, int]) -> None:
        with self._lock:
            for key in [key for key in self._blocks if key.window < kept_from.get(key.resolution, 0)]:
                del self._blocks[key]


class DecodedFrames:
    """`block` of any frame."""

    def __init__(self, fleet_bytes: int = FLEET_BYTES, node_bytes: int = NODE_BYTES) -> None:
        self._fleet, self._nodes = _Recent(fleet_bytes), _Recent(node_bytes)
        self._kept_from: dict[int, int] = {}

    def block(self, found: Frame) -> Block:
        """Raises `frame.Damaged`."""
        return (self._fleet if found.key.block == FLEET else self._nodes).block(found)

    def forget(self, kept_from: Mapping[int, int]) -> None:
        """By resolution the oldest window that is still kept: nobody asks for what was before."""
        if kept_from != self._kept_from:
            self._kept_from = dict(kept_from)
            for recent in (self._fleet, self._nodes):
                recent.forget(kept_from)


def _nbytes(block: Block) -> int:
    arrays: list[NDArray[Any]]
    if isinstance(block, HistogramBlock):
        arrays = [block.labels, block.counts, block.zero, block.total, block.minimum, block.maximum, block.error]
    else:
        arrays = [block.labels, block.value, block.time_ns]
    return sum(array.nbytes for array in arrays)
