"""The writer's queue keeps its bounds and wakes nobody too early."""

import threading

from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.journal.ingest_queue import IngestQueue


@given(st.lists(st.one_of(st.none(), st.integers(0, 30)), max_size=60))
def test_bounded_in_number_and_in_bytes_and_in_order(steps: list[int | None]) -> None:
    """None takes one out; a number puts one of that size in."""
    queue: IngestQueue[int] = IngestQueue(4, 50)
    model: list[int] = []
    for step in steps:
        if step is None:
            assert queue.pop() == (model.pop(0) if model else None)
            continue
        fits = len(model) < 4 and (not model or sum(model) + step <= 50)
        assert queue.put(step, step) is fits
        model += [step] if fits else []
        assert (len(queue), queue.nbytes) == (len(model), sum(model))


def test_one_item_is_taken_however_large() -> None:
    queue: IngestQueue[str] = IngestQueue(4, 50)
    assert queue.put("large", 1000) and not queue.put("more", 1)


def test_waits_for_company_only_as_long_as_told() -> None:
    queue: IngestQueue[int] = IngestQueue(10, 1000)
    queue.put(1, 1)
    assert queue.wait(0.0, 5) and len(queue) == 1
    others = threading.Thread(target=lambda: [queue.put(i, 1) for i in range(4)])
    others.start()
    assert queue.wait(60.0, 5) and len(queue) == 5
    others.join()


def test_the_end_comes_after_what_is_there() -> None:
    queue: IngestQueue[int] = IngestQueue(10, 1000)
    queue.put(1, 1)
    queue.close()
    assert queue.wait(60.0, 5) and queue.pop() == 1
    assert not queue.wait(60.0, 5)


def test_closing_wakes_who_waits() -> None:
    queue: IngestQueue[int] = IngestQueue(10, 1000)
    found: list[bool] = []
    waiting = threading.Thread(target=lambda: found.append(queue.wait(0.0, 5)))
    waiting.start()
    queue.close()
    waiting.join(60)
    assert found == [False]
