"""When a request was queued and computed, and how long two were there together."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.telemetry.request_log.engine_time import EngineTime, ahead_s, engine_time, overlap_s

SECONDS = st.floats(0.0, 50.0)
PARTS = st.fixed_dictionaries(
    {"e2e": SECONDS},
    optional={name: SECONDS for name in ("receive", "tokenize", "queue", "prefill", "decode", "send")},
)
TIMES = st.builds(engine_time, SECONDS, PARTS)


def test_a_waterfall_is_queued_then_computed() -> None:
    parts = {"receive": 1.0, "tokenize": 2.0, "queue": 3.0, "prefill": 4.0, "decode": 5.0, "send": 1.0, "e2e": 16.5}
    assert engine_time(100.0, parts) == EngineTime(103.0, 106.0, 115.0)
    assert engine_time(100.0, {"e2e": 7.0, "send": 1.0}) == EngineTime(100.0, 100.0, 106.0)
    assert engine_time(100.0, {}) == EngineTime(100.0, 100.0, 100.0)


def test_what_ran_while_another_waited_is_told_apart_from_what_ran_beside_it() -> None:
    waiting, blocker = EngineTime(0.0, 4.0, 10.0), EngineTime(-5.0, -5.0, 6.0)
    assert (overlap_s(waiting, blocker), ahead_s(waiting, blocker)) == (2.0, 4.0)
    assert (overlap_s(blocker, waiting), ahead_s(blocker, waiting)) == (2.0, 0.0)


@given(TIMES, TIMES)
def test_an_overlap_is_mutual_and_no_longer_than_either(one: EngineTime, other: EngineTime) -> None:
    assert one.queued <= one.scheduled <= one.done
    assert overlap_s(one, other) == overlap_s(other, one) >= 0.0
    assert overlap_s(one, other) <= min(one.done - one.scheduled, other.done - other.scheduled) + 1e-9
    assert 0.0 <= ahead_s(one, other) <= one.scheduled - one.queued + 1e-9
