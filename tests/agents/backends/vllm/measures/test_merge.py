"""Whatever order traces and readings come in, each request is counted once."""

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from agents.backends.vllm.measures.growth import Buckets
from agents.backends.vllm.measures.merge import TracedMerge

BOUNDS = (0.3, 1.0)
requests = st.lists(
    st.tuples(
        st.floats(0.0, 100.0),  # When it ends.
        st.floats(0.01, 3.0),  # Its duration.
        st.one_of(st.none(), st.floats(0.0, 60.0)),  # How much later its trace comes; None: never.
    ),
    max_size=40,
)


def grown(values: list[float]) -> dict[str, Buckets]:
    counts = [0, 0, 0]
    for value in values:
        counts[bisect_left(BOUNDS, value)] += 1
    return {"e2e": Buckets(BOUNDS, counts, sum(values))} if values else {}


@given(requests, st.floats(1.0, 10.0), st.floats(0.0, 20.0))
def test_each_request_counts_once(
    served: list[tuple[float, float, float | None]], interval_s: float, held_s: float
) -> None:
    merge = TracedMerge(0.0)
    happenings: list[tuple[float, int, float]] = [(place * interval_s, -1, 0.0) for place in range(1, 200)]
    happenings += [(end + late, place, value) for place, (end, value, late) in enumerate(served) if late is not None]
    exact = in_buckets = 0
    total = 0.0
    read_until = 0.0
    for at, place, value in sorted(happenings):
        if place >= 0:
            end = served[place][0]
            if merge.count("e2e", value, end):
                exact += 1
                total += value
            continue
        merge.grown(at, grown([one for end, one, _ in served if read_until < end <= at or (end == 0.0 == read_until)]))
        read_until = at
        for _, one in merge.due(at, held_s):
            in_buckets += one.count
            total += one.total
            lower = sum(count * edge for count, edge in zip(one.counts, (0.0, *BOUNDS), strict=True))
            assert one.total >= lower - 1e-9
    for _, one in merge.due(1e9, 0.0):
        in_buckets += one.count
    assert exact + in_buckets == len(served)


def test_values_that_are_traced_in_time_leave_their_buckets_empty() -> None:
    merge = TracedMerge(0.0)
    merge.grown(5.0, grown([0.1, 0.2, 0.9]))
    assert all(merge.count("e2e", value, 4.0) for value in (0.2, 0.9))
    ((short, left),) = merge.due(25.0, 20.0)
    assert short == "e2e" and left.counts == [1, 0, 0]
    assert left.total - 0.1 < 1e-12


def test_a_trace_before_its_reading_is_taken_out_of_it() -> None:
    merge = TracedMerge(0.0)
    assert merge.count("e2e", 0.2, 3.0)
    merge.grown(5.0, grown([0.2]))
    assert merge.due(100.0, 0.0) == []


def test_after_a_restart_nothing_is_taken_out_for_what_the_old_server_did_last() -> None:
    merge = TracedMerge(0.0)
    assert merge.count("e2e", 0.2, 3.0)
    merge.forget_ahead()
    merge.grown(5.0, grown([0.2]))
    assert merge.due(5.0, 0.0)[0][1].count == 1


def test_its_state_makes_it_again() -> None:
    merge = TracedMerge(0.0)
    merge.grown(5.0, grown([0.1, 0.2, 0.9]))
    merge.count("e2e", 2.0, 7.0)
    again = TracedMerge.restored(merge.state())
    again.grown(10.0, grown([2.0]))
    assert [one.counts for _, one in again.due(10.0, 0.0)] == [[2, 1, 0]]
