"""The ring between vLLM's loop and the feed: numbers without gaps, bounded, never waited for."""

import threading

from hypothesis import given, settings
from hypothesis import strategies as st
from trimtab_vllm.ring import Ring


def _numbers(ring: Ring, after: int) -> list[int]:
    """The events a reader at `after` gets, reading to the end."""
    got: list[int] = []
    while True:
        new = [
            number
            for first, events in ring.after(after, limit=3)
            for number in range(first, first + events)
            if number > after
        ]
        if not new:
            return got
        got += new
        after = new[-1]


@settings(derandomize=True, deadline=None)
@given(st.lists(st.integers(1, 5), max_size=40), st.integers(2, 12), st.data())
def test_a_reader_gets_every_event_still_held_once_and_in_order(
    sizes: list[int], capacity: int, data: st.DataObject
) -> None:
    ring = Ring(capacity)
    for size in sizes:
        ring.append(size, size)
    assert ring.newest == sum(sizes)
    after = data.draw(st.integers(0, sum(sizes)))
    held = sizes[max(0, len(sizes) - (capacity - 1)) :]  # The slot next in line may be overwritten at any moment.
    oldest = sum(sizes) - sum(held) + 1
    assert _numbers(ring, after) == list(range(max(after + 1, oldest), sum(sizes) + 1))


def test_waiting_ends_when_something_comes() -> None:
    ring = Ring(4)
    woken: list[bool] = []
    reader = threading.Thread(target=lambda: woken.append(ring.wait(0, 60.0)))
    reader.start()
    while not ring._reader_waits:
        pass
    ring.append("a", 1)
    reader.join(60.0)
    assert woken == [True]


def test_waiting_ends_when_nothing_comes() -> None:
    assert Ring(4).wait(0, 0.01) is False
