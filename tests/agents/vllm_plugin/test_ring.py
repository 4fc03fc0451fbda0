"""The ring between vLLM's loop and the feed: numbers without gaps, bounded, never waited for."""

import threading

from hypothesis import given, settings
from hypothesis import strategies as st
from tailwright_vllm.ring import LARGEST_BYTES, Ring

SIZES = st.lists(st.tuples(st.integers(1, 5), st.integers(1, 9)), max_size=40)


def _numbers(ring: Ring, after: int) -> list[int]:
    """The events a reader at `after` gets, reading to the end."""
    got: list[int] = []
    while True:
        new = [
            number
            for first, events, _ in ring.after(after, limit=3)
            for number in range(first, first + events)
            if number > after
        ]
        if not new:
            return got
        got += new
        after = new[-1]


@settings(derandomize=True, deadline=None)
@given(SIZES, st.integers(1, 12), st.integers(5, 60), st.data())
def test_a_reader_gets_every_event_still_held_once_and_in_order(
    records: list[tuple[int, int]], capacity: int, largest_bytes: int, data: st.DataObject
) -> None:
    ring = Ring(capacity, largest_bytes)
    held: list[tuple[int, int]] = []  # The model: drop the oldest while there are too many, or too many bytes.
    for events, size in records:
        ring.append(events, events, size)
        held = [*held, (events, size)][-capacity:]
        while sum(size for _, size in held) > largest_bytes and len(held) > 1:
            held.pop(0)
    total = sum(events for events, _ in records)
    oldest = total - sum(events for events, _ in held) + 1
    assert (ring.newest, ring.oldest) == (total, oldest)
    after = data.draw(st.integers(0, total))
    assert _numbers(ring, after) == list(range(max(after + 1, oldest), total + 1))


def test_a_reader_beside_a_fast_writer_sees_numbers_that_rise_and_their_own_records() -> None:
    ring, wrong, done = Ring(8, 1000), [], threading.Event()

    def read() -> None:
        sent = 0
        while not done.is_set() or ring.newest > sent:
            last = 0
            for first, record, _ in ring.after(sent, limit=4):
                if record != first or first <= last:
                    wrong.append((last, first, record))
                last = first
            sent = max(sent, last)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(1, 60_001):
        ring.append(number, 1, 1)
    done.set()
    reader.join(60.0)
    assert not reader.is_alive() and wrong == []


def test_the_bound_in_bytes_is_the_one_the_readme_states() -> None:
    assert LARGEST_BYTES == 32 * 2**20
