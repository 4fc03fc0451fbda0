import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.client_measure.arrivals import READY_S, WAITED_S, Arrivals

DURATIONS = st.floats(0.0, 10.0)


@given(st.lists(st.tuples(DURATIONS, DURATIONS, st.integers(0, 4)), min_size=1))
def test_gaps_add_up_and_what_is_held_is_what_the_consumer_took(reads: list[tuple[float, float, int]]) -> None:
    arrivals, now, held, times = Arrivals(100.0), 100.0, 0.0, []
    for hold, wait, pieces in reads:
        asked = now + hold
        now = asked + wait
        held += hold
        arrivals.took(asked, now, pieces)
        times += [now] * pieces
    assert arrivals.held_s == pytest.approx(held, abs=1e-6)
    assert len(arrivals.gaps()) == max(0, len(times) - 1)
    assert sum(arrivals.gaps()) == pytest.approx(times[-1] - times[0] if times else 0.0, abs=1e-6)
    assert arrivals.first_piece_s == (times[0] - 100.0 if times else None)


@given(st.lists(st.tuples(DURATIONS, st.floats(0.0, 1.0)), min_size=1))
def test_the_consumer_is_never_further_behind_than_is_said(sent: list[tuple[float, float]]) -> None:
    """Chunks reach the host at gaps of their own; a read takes half of `READY_S`, and waits where none lies ready."""
    arrivals, due, free = Arrivals(0.0), 0.0, 0.0
    for hold, gap in sent:
        due += gap
        asked = free + hold
        free = max(due, asked) + READY_S / 2
        arrivals.took(asked, free, 1)
    assert arrivals.behind_s >= free - READY_S - due - 1e-6


def test_a_consumer_that_always_waits_is_not_behind() -> None:
    arrivals = Arrivals(0.0)
    for number in range(5):
        arrivals.took(number + 0.001, number + 0.5, 1)
    assert arrivals.behind_s == 0.0
    arrivals.took(9.0, 9.00001, 1)
    assert arrivals.behind_s == pytest.approx(4.50001)


def test_a_busy_machine_is_not_taken_for_a_wait() -> None:
    """Bytes that lie ready, and a read that the machine held up for longer than a read takes."""
    arrivals = Arrivals(0.0)
    arrivals.took(0.3, 0.3 + 4 * READY_S, 1)
    assert arrivals.behind_s == pytest.approx(0.3 + 4 * READY_S)
    arrivals.took(0.4, 0.4 + 2 * WAITED_S, 1)
    assert arrivals.behind_s == 0.0
