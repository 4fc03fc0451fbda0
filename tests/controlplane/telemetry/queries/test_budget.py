"""What a query may take, decided by what it reads and not by the clock; and what goes out of more."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.errors import DeadlineUnmet, Overloaded, TooLarge
from controlplane.serving.limits import Refused
from controlplane.telemetry.queries.budget import CELL_BYTES, HEAVY_ROWS, QueryDesk, QueryLimits, kept, left_out

REQUESTS = st.lists(st.integers(0, 5).map(float), max_size=30)


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@given(REQUESTS, st.integers(1, 40))
def test_the_series_with_the_most_requests_stay_in_their_order(requests: Sequence[float], most: int) -> None:
    places = list(kept(requests, most))
    assert places == sorted(places) and len(places) == min(most, len(requests))
    gone = set(range(len(requests))) - set(places)
    for place in gone:
        # Whoever stays has more requests, or as many and comes first.
        assert all((requests[one], -one) > (requests[place], -place) for one in places)


@given(REQUESTS)
def test_without_a_limit_all_stay_and_nothing_is_said(requests: Sequence[float]) -> None:
    assert list(kept(requests, None)) == list(range(len(requests)))
    assert left_out(len(requests), len(requests)) is None


def test_what_is_left_out_is_said_with_the_mend() -> None:
    said = left_out(1_500, 1_000)
    assert said is not None and said.series == 500
    assert "top" in said.mend and "filter" in said.mend


def test_only_so_many_heavy_queries_of_a_token_at_once_and_none_of_others_counts() -> None:
    desk = QueryDesk(QueryLimits(heavy_at_once=2))
    with desk.query(1) as first, desk.query(1) as second, desk.query(2) as other:
        for heavy in (first, second, other):
            heavy.read(HEAVY_ROWS + 1)
        with desk.query(1) as light:
            light.read(HEAVY_ROWS)
            with pytest.raises(Overloaded) as refused:
                light.read(1)
        assert refused.value.retry_after_s > 0
        assert desk.heavy == {1: 2, 2: 1}
    assert not desk.heavy
    assert desk.door.refused == {Refused.QUERIES_AT_ONCE: 1}
    with desk.query(1) as again:
        again.read(HEAVY_ROWS + 1)
        again.read(HEAVY_ROWS + 1)
        assert desk.heavy == {1: 1}, "one query has one place, however much it reads"


def test_a_query_that_fails_gives_its_place_back() -> None:
    desk = QueryDesk(QueryLimits(heavy_at_once=1))
    with pytest.raises(ZeroDivisionError), desk.query(1) as budget:
        budget.read(HEAVY_ROWS + 1)
        raise ZeroDivisionError
    assert not desk.heavy


def test_the_service_s_own_queries_have_no_places() -> None:
    desk = QueryDesk(QueryLimits(heavy_at_once=1))
    with desk.query(None) as first, desk.query(None) as second:
        first.read(HEAVY_ROWS + 1)
        second.read(HEAVY_ROWS + 1)
    assert not desk.heavy and not desk.door.refused


def test_a_query_is_given_up_after_its_time() -> None:
    clock = Clock()
    desk = QueryDesk(QueryLimits(seconds=20), monotonic=clock)
    with desk.query(1) as budget:
        clock.now_s = 20.0
        budget.read(1)
        clock.now_s = 20.1
        with pytest.raises(DeadlineUnmet, match="not answered within 20 s; take a shorter span"):
            budget.read(1)
    assert desk.door.refused == {Refused.QUERY_TIME: 1}


def test_an_answer_has_so_many_cells_and_bytes() -> None:
    desk = QueryDesk(QueryLimits(answer_bytes=100 * CELL_BYTES))
    with desk.query(1) as budget:
        budget.made(100)
        assert budget.written(b"x" * 100 * CELL_BYTES)
        with pytest.raises(TooLarge, match="101 groups times steps"):
            budget.made(101)
        with pytest.raises(TooLarge, match="bytes"):
            budget.written(b"x" * (100 * CELL_BYTES + 1))
    assert desk.door.refused == {Refused.ANSWER_BYTES: 2}
