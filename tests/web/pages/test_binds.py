"""What binds: the shares of engine steps by limit, each with what lifts it."""

import re
from datetime import UTC, datetime
from typing import Any

from controlplane.client import Client
from controlplane.contract.bodies.telemetry import RatesAnswer, RateSeries
from controlplane.contract.step_limits import StepLimit
from tests.web.part_html import part_html
from web.pages.latency_page import PAGE

TIME = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Asked(Client):
    """Answers with these numbers of steps, and remembers what was asked."""

    def __init__(self, steps: dict[str, float]) -> None:
        self.steps = steps
        self.asked: dict[str, Any] = {}

    def rates(self, metric: str, **asked: Any) -> RatesAnswer:
        self.asked = {"metric": metric, **asked}
        series = [
            RateSeries(labels={"limit": limit}, total=total, seconds=60, per_second=total / 60)
            for limit, total in self.steps.items()
        ]
        return RatesAnswer(metric=metric, unit="{step}/s", start=TIME, end=TIME, series=series)


def test_the_shares_are_of_all_steps_and_the_largest_comes_first() -> None:
    client = Asked({StepLimit.CHUNK: 100, StepLimit.NO_WORK: 600, StepLimit.MAX_NUM_SEQS: 300, StepLimit.DRAFTS: 0})
    text = part_html(PAGE, "binds", client, **{"pool": "chat", "from": "now-1h"})
    assert client.asked == {"metric": "step_limit", "window": "3600s", "by": ["limit"], "pool": "chat"}
    rows = re.findall(r'data-key="(\w+)".*?class="number">(.*?)<.*?<td>(?:<code>(\w+)</code>|–)</td>', text)
    assert rows == [
        ("no_work", "60.0%", ""),
        ("max_num_seqs", "30.0%", "max_num_seqs"),
        ("chunk", "10.0%", "prefill_chunk_size"),
    ]
    assert "Of 1,000 engine steps" in text and 'value="0.6000"' in text


def test_an_engine_that_tells_nothing_is_said() -> None:
    client = Asked({})
    assert "No engine has said" in part_html(PAGE, "binds", client)
    assert client.asked["window"] == "900s"
