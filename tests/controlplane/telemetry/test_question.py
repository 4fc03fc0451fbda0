"""A question that cannot be meant is not made."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.contract.errors import BadRequest
from controlplane.telemetry import Question, Span

SPAN = Span(datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=1))


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        ({"by": ["nod"]}, "by", "by: 'nod' is not a label; did you mean 'node'"),
        ({"where": {"pol": "a"}}, "pol", "pol: 'pol' is not a label; did you mean 'pool'"),
        ({"step_s": 7.0}, "step", "multiple of 5s"),
        ({"step_s": 0.0}, "step", "multiple of 5s"),
    ],
)
def test_what_is_wrong_is_named(given: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words) as caught:
        Question("ttft", SPAN, **given)
    assert caught.value.detail["field"] == field


def test_what_is_left_out_lets_everything_in() -> None:
    assert Question("ttft", SPAN) == Question("ttft", SPAN, (), {}, None)
