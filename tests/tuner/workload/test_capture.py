"""A node's share keeps conversations whole, and the slice says what was done to it."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.contract.bodies.workload import Workload, WorkloadRequest
from tuner.workload.capture import busy_slice, conversations, describe, node_share, priming, slice_for_node
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
