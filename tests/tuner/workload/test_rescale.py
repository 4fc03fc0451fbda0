"""Rearranged traffic is the same traffic at other moments."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.workload import Workload
from tuner.workload.generate import CONV, fitted, generate
from tuner.workload.rescale import shuffle_gaps
from tuner.workload.trace import workload_of

TRAFFIC = generate(fitted(CONV, max_input=256, max_output=16), seed=3, rate_per_s=5, requests=40)


def _gaps(workload: Workload) -> list[float]:
    return [after.timestamp - before.timestamp for before, after in pairwise(workload.requests)]


@given(st.integers(0, 10**6))
def test_shuffled_gaps_keep_requests_their_order_and_how_bursty_they_are(seed: int) -> None:
    found = shuffle_gaps(TRAFFIC, seed)
    assert sorted(_gaps(found)) == pytest.approx(sorted(_gaps(TRAFFIC)))
    assert [request.hash_ids for request in found.requests] == [request.hash_ids for request in TRAFFIC.requests]
    assert found.requests[0].timestamp == TRAFFIC.requests[0].timestamp
    assert _gaps(found) == _gaps(shuffle_gaps(TRAFFIC, seed))


def test_another_seed_another_order_and_nothing_stays_nothing() -> None:
    assert _gaps(shuffle_gaps(TRAFFIC, 1)) != _gaps(shuffle_gaps(TRAFFIC, 2))
    assert shuffle_gaps(workload_of([]), 1).requests == []
