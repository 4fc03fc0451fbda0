"""What is read of a shift: every label that tells requests apart, in blocks of time, and single requests with parts."""

from datetime import UTC, datetime, timedelta

import numpy as np

from controlplane.alerts.diagnosis.shift_readings import BLOCKS, MOST_VALUES, NOT_TOLD, read_shift
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.telemetry import Span
from tests.controlplane.telemetry.fake_reader import FakeReader

START = datetime(2030, 1, 1, 12, tzinfo=UTC)
ONSET, END = START + timedelta(seconds=120), START + timedelta(seconds=150)
BEFORE, DURING = Span(START, ONSET), Span(ONSET, END)


def reader(nodes: int, tenant: str = "") -> FakeReader:
    found = FakeReader()
    for second in range(0, 150, 5):
        for node in range(nodes):
            labels = {"pool": "main", "node": f"n{node:02}", "prompt_bucket": "<=128"}
            if node == 0 and tenant:
                labels["tenant"] = tenant
            found.add("ttft", START + timedelta(seconds=second), [0.1 * (node + 1), 0.2], **labels)
    return found


def test_labels_that_tell_requests_apart_are_read_in_blocks() -> None:
    read = read_shift(reader(2, "web"), {"pool": "main"}, "ttft", 0.99, BEFORE, DURING)
    assert [(one.label, one.values) for one in read.grouped] == [
        ("node", ["n00", "n01"]), ("tenant", [NOT_TOLD, "web"]),
    ]  # fmt: skip
    node = read.grouped[0]
    assert node.before.shape[:2] == (BLOCKS, 2) and node.during.shape[:2] == (6, 2)
    assert (int(node.before.sum()), int(node.during.sum())) == (24 * 4, 6 * 4)
    assert (len(read.ticks), read.usual, read.tick_times[0]) == (30, 24, START)
    assert read.before_requests is None and not read.has_grown


def test_what_the_question_holds_fixed_is_not_asked_again() -> None:
    read = read_shift(reader(2), {"pool": "main", "node": "n00"}, "ttft", 0.99, BEFORE, DURING)
    assert [one.label for one in read.grouped] == []


def test_of_many_nodes_the_slow_ones_are_told_and_the_others_together() -> None:
    read = read_shift(reader(40), {"pool": "main"}, "ttft", 0.99, BEFORE, DURING)
    (node,) = read.grouped
    assert len(node.values) == MOST_VALUES + 1 and node.values[-1] == ""
    assert node.values[-2] == "n39" and int(node.before.sum()) == 24 * 80


def test_single_requests_come_with_their_parts_and_one_that_was_not_told_took_no_time() -> None:
    found = reader(2)
    for second in range(100):
        parts = {"ttft": 1.0, "e2e": 2.0, "queue": 0.25, "prefill": 0.75}
        found.finished.append(
            RequestRecord(
                node="n00",
                pool="main",
                model="m",
                revision=1,
                request_id=f"r{second}",
                arrival=START + timedelta(seconds=second),
                prompt_tokens=10,
                cached_tokens=0,
                output_tokens=2,
                finish_reason="stop",
                parts=parts,
            )
        )
    read = read_shift(found, {"pool": "main"}, "ttft", 0.99, BEFORE, DURING)
    assert read.stages == ("receive", "tokenize", "queue", "prefill") and read.before_requests is not None
    assert len(read.before_requests.total) == 100 and np.allclose(read.before_requests.parts[0], [0, 0, 0.25, 0.75])
    assert read_shift(found, {"pool": "main"}, "itl", 0.99, BEFORE, DURING).stages == ()
