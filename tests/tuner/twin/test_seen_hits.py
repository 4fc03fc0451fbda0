"""What was spared of prompts whose blocks nobody told is a beginning that they share."""

from datetime import timedelta
from typing import Any

from controlplane.contract.bodies.workload import RequestRecord, Workload, WorkloadRequest
from tests.tuner.served_pool import START
from tuner.twin.seen_hits import with_seen_hits


def record(at_ms: float, cached: int) -> RequestRecord:
    about: dict[str, Any] = dict(node="n", pool="chat", model="m", revision=1, request_id="r", finish_reason="stop")
    arrival = START + timedelta(microseconds=int(at_ms * 1000))
    return RequestRecord(**about, arrival=arrival, prompt_tokens=100, cached_tokens=cached, output_tokens=4, parts={})


def workload(*requests: WorkloadRequest) -> Workload:
    return Workload(pool="chat", start=START, end=START + timedelta(seconds=9), nodes=1, requests=list(requests))


def request(at_ms: float, ids: tuple[int, ...] = ()) -> WorkloadRequest:
    return WorkloadRequest(timestamp=at_ms, input_length=100, output_length=4, hash_ids=list(ids))


def test_whole_blocks_of_what_was_spared_are_shared() -> None:
    """By arrival, in whatever order, told in whole microseconds; whose record is not there was spared nothing."""
    asked = workload(request(5.0), request(20.0004), request(31.0), request(44.0))
    found = with_seen_hits(asked, [record(31.0, 32), record(20.0004, 70), record(5.0, 0)])
    first, second, third, last = (one.hash_ids for one in found.requests)
    assert first == last == []
    assert len(second) == 4 and len(third) == 2
    assert second[:2] == third


def test_blocks_that_are_told_stay() -> None:
    asked = workload(request(5.0, (3, 4)), request(6.0))
    assert with_seen_hits(asked, [record(5.0, 32), record(6.0, 32)]) is asked


def test_where_nothing_was_spared_nothing_changes() -> None:
    asked = workload(request(5.0))
    assert with_seen_hits(asked, [record(5.0, 0)]) is asked
