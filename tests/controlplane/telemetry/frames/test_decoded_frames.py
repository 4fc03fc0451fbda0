"""What is remembered of frames is what they hold, and it is bounded."""

import tracemalloc

import numpy as np
import pytest

from controlplane.contract.metrics import MetricKind
from controlplane.telemetry.frames import decoded_frames, frame
from controlplane.telemetry.frames.block import Block, ScalarBlock
from controlplane.telemetry.frames.decoded_frames import DecodedFrames
from controlplane.telemetry.frames.frame_store import Frame, FrameKey
from controlplane.telemetry.frames.gather import FLEET


def frame_of(value: float, window: int = 0, block: int = FLEET) -> Frame:
    scalars = ScalarBlock(np.arange(1, 4, dtype=np.int32), np.full(3, value), np.zeros(3, np.int64), MetricKind.SUM)
    return Frame(FrameKey(5, 1, block, window), frame.encode(scalars))


def value_of(block: Block) -> float:
    assert isinstance(block, ScalarBlock)
    return float(block.value[0])


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The frames that were decoded."""
    found: list[bytes] = []
    original = frame.decode

    def decode(data: bytes) -> Block:
        found.append(data)
        return original(data)

    monkeypatch.setattr(decoded_frames.frame, "decode", decode)
    return found


def test_a_frame_is_decoded_once(decoded: list[bytes]) -> None:
    frames = DecodedFrames()
    first = frames.block(frame_of(1.0))
    assert frames.block(frame_of(1.0)) is first and len(decoded) == 1


def test_one_that_was_written_anew_is_decoded_anew() -> None:
    frames = DecodedFrames()
    assert [value_of(frames.block(frame_of(value))) for value in (1.0, 2.0, 1.0)] == [1.0, 2.0, 1.0]


def test_what_was_asked_for_longest_ago_goes_first(decoded: list[bytes]) -> None:
    small = DecodedFrames()
    small.block(frame_of(1.0))
    room = 2 * small._fleet._blocks.currsize
    frames = DecodedFrames(fleet_bytes=room, node_bytes=room)
    for window in (0, 1, 0, 2):
        frames.block(frame_of(1.0, window))
        assert frames._fleet._blocks.currsize <= room
    del decoded[:]
    frames.block(frame_of(1.0, 0))
    frames.block(frame_of(1.0, 2))
    assert not decoded
    frames.block(frame_of(1.0, 1))
    assert len(decoded) == 1


def test_frames_of_nodes_do_not_push_out_the_fleets(decoded: list[bytes]) -> None:
    frames = DecodedFrames(node_bytes=1)
    frames.block(frame_of(1.0))
    for window in range(10):
        frames.block(frame_of(2.0, window, block=0))
    assert frames._nodes._blocks.currsize == 0
    del decoded[:]
    frames.block(frame_of(1.0))
    assert not decoded


def test_small_frames_are_reckoned_with_their_objects() -> None:
    count, frames = 2000, DecodedFrames()
    stored = [frame_of(float(window), window, block=1) for window in range(count)]
    tracemalloc.start()
    try:
        for one in stored:
            frames.block(one)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < frames._nodes._blocks.currsize


def test_what_the_store_no_longer_keeps_is_forgotten(decoded: list[bytes]) -> None:
    frames = DecodedFrames()
    for window in (10, 11):
        frames.block(frame_of(1.0, window))
        frames.block(frame_of(1.0, window, block=1))
    frames.forget({5: 11, 60: 99})
    assert [len(recent._blocks) for recent in (frames._fleet, frames._nodes)] == [1, 1]
    del decoded[:]
    frames.block(frame_of(1.0, 11))
    frames.block(frame_of(1.0, 11, block=1))
    assert not decoded
