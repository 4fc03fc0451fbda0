"""What binds: the shares of engine steps by limit, each with what lifts it."""

import re
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from web.fragments import context_of

from controlplane.client import Client
from controlplane.contract.bodies.telemetry import RatesAnswer, RateSeries
from controlplane.contract.errors import BadRequest
from controlplane.contract.step_limits import StepLimit
from web.frame.rendering import templates

TIME = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Asked(Client):
    """Answers with these numbers of steps, and remembers what was asked."""

    def __init__(self, steps: dict[str, float]) -> None:
        self.steps = steps
        self.asked: dict[str, Any] = {}

    def nodes(self, *_: Any, **__: Any) -> Any:
        return [SimpleNamespace(pool=pool, role="serving") for pool in ("code", "chat")]

    def rates(self, metric: str, **asked: Any) -> RatesAnswer:
        self.asked = {"metric": metric, **asked}
        series = [
            RateSeries(labels={"limit": limit}, total=total, seconds=60, per_second=total / 60)
            for limit, total in self.steps.items()
        ]
        return RatesAnswer(metric=metric, unit="{step}/s", start=TIME, end=TIME, series=series)


def shown(client: Client, **params: str) -> str:
    return templates.get_template("fragments/binds.html").render(**context_of("binds", client, params))


def test_the_shares_are_of_all_steps_and_the_largest_comes_first() -> None:
    client = Asked({StepLimit.CHUNK: 100, StepLimit.NO_WORK: 600, StepLimit.MAX_NUM_SEQS: 300, StepLimit.DRAFTS: 0})
    text = shown(client, pool="chat", span="1h")
    assert client.asked == {"metric": "step_limit", "window": "1h", "by": ["limit"], "pool": "chat"}
    rows = re.findall(r'data-key="(\w+)".*?class="number">(.*?)<.*?<td>(?:<code>(\w+)</code>|–)</td>', text)
    assert rows == [
        ("no_work", "60.0%", ""),
        ("max_num_seqs", "30.0%", "max_num_seqs"),
        ("chunk", "10.0%", "prefill_chunk_size"),
    ]
    assert "Of 1,000 engine steps" in text and 'value="0.6000"' in text


def test_without_a_pool_it_is_the_one_that_the_page_shows() -> None:
    client = Asked({})
    assert "No engine has said" in shown(client)
    assert client.asked["pool"] == "chat" and client.asked["window"] == "15m"


def test_a_span_that_is_not_offered_is_named() -> None:
    with pytest.raises(BadRequest, match="span: 'ever'"):
        shown(Asked({}), pool="chat", span="ever")
