"""A node's share keeps conversations whole, and the slice says what was done to it."""

import itertools
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.bodies.workload import Workload, WorkloadRequest
from controlplane.contract.errors import NotFound
from tuner.workload.capture import (
    busy_slice,
    capture,
    conversations,
    describe,
    lead_in_of,
    node_share,
    priming,
    slice_for_node,
)
from tuner.workload.generate import CONV, fitted, generate
from tuner.workload.rescale import cut
from tuner.workload.trace import workload_of


def _pool(nodes: int, requests: int = 400, seed: int = 1) -> Workload:
    made = generate(fitted(CONV, max_input=512, max_output=32), seed=seed, rate_per_s=6, requests=requests)
    return made.model_copy(update={"nodes": nodes})


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_a_share_is_about_one_of_n_and_keeps_conversations_whole(nodes: int) -> None:
    pool = _pool(nodes)
    share = node_share(pool)
    assert len(share.requests) == pytest.approx(400 / nodes, rel=0.3)
    inside = {id(request) for request in share.requests}
    by_conversation: dict[int, set[bool]] = {}
    for request, conversation in zip(pool.requests, conversations(pool), strict=True):
        by_conversation.setdefault(conversation, set()).add(id(request) in inside)
    assert all(len(kept) == 1 for kept in by_conversation.values())
    assert len(by_conversation) > 50  # A system prompt that all share is not taken for one conversation.


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 50), st.floats(2, 30), st.integers(5, 60))
def test_slices_are_contiguous_and_bounded(seed: int, span_s: float, requests: int) -> None:
    pool = _pool(1, requests=80, seed=seed)
    first, last = busy_slice(pool, span_s=span_s, requests=requests)
    assert 0 <= first < last <= 80 and 5 <= last - first <= max(requests, 5)


def test_ahead_of_what_is_measured_stands_what_came_before_it() -> None:
    pool = _pool(1)
    piece = slice_for_node(pool, span_s=1000, requests=40)
    first, last = piece.place
    assert (last - first, piece.lead_in, piece.summary["lead_in"], piece.summary["slice"]["requests"]) == (
        50,
        10,
        10,
        40,
    )
    begin = pool.requests[first].timestamp
    assert [one.timestamp for one in piece.workload.requests] == [
        pytest.approx(one.timestamp - begin) for one in pool.requests[first:last]
    ]


@pytest.mark.parametrize(("requests", "lead_in"), [(50, 10), (10, 2), (6, 1), (5, 0), (3, 0)])
def test_of_few_requests_those_that_a_trial_needs_are_measured(requests: int, lead_in: int) -> None:
    assert lead_in_of(requests) == lead_in


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 50), st.integers(5, 30))
def test_a_second_slice_shares_no_request_where_that_can_be(seed: int, requests: int) -> None:
    pool = _pool(1, requests=120, seed=seed)
    seen = slice_for_node(pool, span_s=5, requests=requests)
    fresh = slice_for_node(pool, span_s=5, requests=requests, apart_from=seen)
    assert fresh.summary["apart"] is (fresh.place[0] >= seen.place[1] or fresh.place[1] <= seen.place[0])
    assert fresh.summary["apart"] is True and "apart" not in seen.summary


def test_too_little_traffic_for_two_slices_gives_the_same_again_and_says_so() -> None:
    pool = _pool(1, requests=12)
    seen = slice_for_node(pool, span_s=60, requests=12)
    fresh = slice_for_node(pool, span_s=60, requests=12, apart_from=seen)
    assert fresh.place == seen.place and fresh.summary["apart"] is False


def test_the_summary_tells_of_compression_and_shortening() -> None:
    sparse = workload_of(
        WorkloadRequest(timestamp=20_000.0 * index, input_length=900, output_length=200) for index in range(20)
    )
    piece = slice_for_node(sparse, span_s=6, requests=10, max_total=1000)
    assert piece.summary["compressed"] > 1 and piece.summary["shortened"] == 5
    assert piece.summary["slice"]["span_s"] <= 9.1
    assert all(request.input_length + request.output_length <= 1000 for request in piece.workload.requests)
    easy = slice_for_node(_pool(2), span_s=8, requests=30)
    assert easy.summary["compressed"] == 1.0 and easy.summary["shortened"] == 0
    assert easy.workload.requests[0].timestamp == 0


def test_prefixes_served_before_the_slice_are_primed() -> None:
    pool = _pool(1)
    earlier, slice_ = pool.requests[:300], cut(pool, 300, 330)
    prime = priming(earlier, slice_)
    before = {identity for request in earlier for identity in request.hash_ids}
    primed = {identity for request in prime.requests for identity in request.hash_ids}
    leading = {identity for r in slice_.requests for identity in itertools.takewhile(before.__contains__, r.hash_ids)}
    assert prime.requests and primed == leading
    assert all(request.input_length == 16 * len(request.hash_ids) + 1 for request in prime.requests)
    assert priming([], slice_).requests == []


def test_description() -> None:
    told = describe(_pool(1, requests=2000))
    assert told["rate_per_s"] == pytest.approx(6, rel=0.2)
    assert told["arrival_cv"] == pytest.approx(CONV.arrival_cv, rel=0.2)
    assert 0 < told["prefix_share"] < 1
    gaps = np.diff([request.timestamp for request in _pool(1).requests])
    assert (gaps >= 0).all()


def _steady(loads: list[int], gap_s: float = 1.0) -> Workload:
    """A request each `gap_s`, with so many tokens."""
    return workload_of(
        WorkloadRequest(timestamp=1000.0 * gap_s * place, input_length=tokens - 1, output_length=1)
        for place, tokens in enumerate(loads)
    )


def test_the_slice_is_busy_and_not_the_worst_moment() -> None:
    calm, busy, worst = [100] * 60, [200] * 25, [1000] * 6
    first, last = busy_slice(_steady(calm + busy + worst), span_s=5, requests=6)
    assert 60 - 3 <= first < last <= 85 + 1


def test_the_slice_lasts_as_long_as_asked_and_no_longer() -> None:
    first, last = busy_slice(_steady([100] * 200), span_s=20, requests=100)
    assert last - first == 50, "half of what was wanted at least, where the span holds fewer"
    first, last = busy_slice(_steady([100] * 200, gap_s=0.1), span_s=20, requests=500)
    assert last - first == 200
    first, last = busy_slice(_steady([100] * 600, gap_s=0.125), span_s=20, requests=300)
    assert last - first == 161
    first, last = busy_slice(_steady([100] * 600, gap_s=0.10008), span_s=20, requests=300)
    assert last - first == 200, "the next comes 16 ms too late"


def test_a_crowd_at_once_is_not_a_busy_time() -> None:
    """Fifty small requests within a millisecond are compared by what the span's half would hold."""
    calm = [WorkloadRequest(timestamp=1000.0 * place, input_length=500, output_length=1) for place in range(100)]
    crowds = [
        WorkloadRequest(timestamp=1000.0 * (200 + 100 * crowd) + place / 50, input_length=20, output_length=1)
        for crowd in range(3)
        for place in range(50)
    ]
    _, last = busy_slice(workload_of(calm + crowds), span_s=10, requests=10)
    assert last <= 100


def test_the_share_is_the_part_nearest_to_the_mean() -> None:
    sizes = []
    for seed in range(8):
        pool = _pool(4, requests=200, seed=seed)
        sizes.append(len(node_share(pool).requests))
    assert np.mean(np.abs(np.array(sizes) - 50)) < 8


def test_the_description_in_figures() -> None:
    told = describe(_steady(list(range(2, 403)), gap_s=0.125))
    assert (told["requests"], told["span_s"], told["rate_per_s"], told["arrival_cv"]) == (401, 50.0, 8.0, 0.0)
    assert told["input_tokens"] == {"p50": 201, "p95": 381, "p99": 397}
    assert told["output_tokens"] == {"p50": 1, "p95": 1, "p99": 1}
    short = describe(_steady([10, 10, 10], gap_s=0.25))
    assert (short["span_s"], short["rate_per_s"]) == (0.5, 4.0)
    nothing = describe(workload_of([]))
    assert (nothing["requests"], nothing["span_s"], nothing["rate_per_s"], nothing["arrival_cv"]) == (0, 0.0, 0.0, 0.0)
    assert nothing["input_tokens"] == nothing["output_tokens"] == {"p50": 0, "p95": 0, "p99": 0}
    assert nothing["prefix_share"] == 0.0
    late = _steady([10] * 9)
    assert describe(late.model_copy(update={"requests": late.requests[4:]}))["span_s"] == 4.0
    assert describe(cut(_steady([10] * 9), 4, 9))["span_s"] == 4.0


def test_what_is_shortened_keeps_its_output_and_the_blocks_that_are_whole() -> None:
    ids = list(range(1, 61))
    requests = [
        WorkloadRequest(timestamp=100.0 * place, input_length=960, output_length=output, hash_ids=ids)
        for place, output in enumerate([40, 40, 40, 40, 500])
    ]
    piece = slice_for_node(workload_of(requests), span_s=6, requests=5, max_total=300)
    usual, long = piece.workload.requests[0], piece.workload.requests[-1]
    assert (usual.input_length, usual.output_length, len(usual.hash_ids)) == (260, 40, 16)
    assert (long.input_length, long.output_length, len(long.hash_ids)) == (1, 299, 0)
    assert piece.summary["shortened"] == 5


def test_a_pool_that_served_too_little_is_refused_by_name() -> None:
    asked = []

    class Client:
        def workload(self, pool: str, *, start: datetime, end: datetime) -> Workload:
            asked.append((pool, start, end))
            return _steady([10] * 4)

    end = datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(NotFound, match="pool p: 4 requests in the last 60 s, a study needs at least 5"):
        capture(Client(), "p", end=end, span_s=60.0)  # type: ignore[arg-type]
    assert asked == [("p", end - timedelta(seconds=60), end)]
