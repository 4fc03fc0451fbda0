"""What Explore's address says beside the bar's filters: every choice is read, what is wrong is refused by name."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.errors import BadRequest
from web.explore.choices import METRICS, TAILS, Box, Choices, choices_of
from web.frame.selection import selection_of

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))


def choices(**params: str) -> Choices:
    return choices_of(selection_of(params, NOW))


def test_what_is_not_said_is_the_usual() -> None:
    assert choices() == Choices(metric="ttft", tail="p95", box=None, one_scale=False, every=False)


@given(
    st.sampled_from(METRICS),
    st.sampled_from(tuple(TAILS)),
    MOMENTS,
    st.integers(1, 10**6),
    st.floats(0, 1e3),
    st.floats(1e-6, 1e3),
)
def test_every_choice_is_read(
    metric: str, tail: str, start: datetime, length_s: int, low: float, height: float
) -> None:
    box = Box(start, start + timedelta(seconds=length_s), low, low + height)
    text = f"{box.start.isoformat()},{box.end.isoformat()},{box.low!r},{box.high!r}"
    found = choices(metric=metric, tail=tail, box=text, scale="shared", charts="all")
    assert found == Choices(metric, tail, box, one_scale=True, every=True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("metric", "kv_usage"),
        ("tail", "p42"),
        ("scale", "log"),
        ("charts", "none"),
        ("box", "1,2,3"),
        ("box", "2026-03-01T11:00:00,2026-03-01T11:05:00,0.1,0.2"),
        ("box", "2026-03-01T11:05:00Z,2026-03-01T11:00:00Z,0.1,0.2"),
        ("box", "2026-03-01T11:00:00Z,2026-03-01T11:05:00Z,0.2,0.1"),
        ("box", "2026-03-01T11:00:00Z,2026-03-01T11:05:00Z,0.2,inf"),
        ("box", "2026-03-01T11:00:00Z,2026-03-01T11:05:00Z,nan,0.1"),
    ],
)
def test_what_is_wrong_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(BadRequest) as refused:
        choices(**{name: value})
    assert refused.value.detail["field"] == name
    assert refused.value.message.startswith(f"{name}: ")


def test_requests_are_told_apart_by_their_own_latency() -> None:
    assert (choices(metric="itl").of_requests, choices(metric="queue").of_requests) == ("tpot", "queue")
    assert (choices(metric="itl").noun, choices(metric="queue").noun) == ("gaps between tokens", "requests")
