"""The latency page's requests behind a quantile: what is asked for, and how each is shown."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.client import Client
from controlplane.contract.errors import BadRequest
from controlplane.contract.pages import Page
from controlplane.contract.telemetry import Exemplar
from web.rendering import templates
from web.views import context_of

TIME = datetime(2026, 3, 1, 12, 0, 7, tzinfo=UTC)
WHOLE = Exemplar(
    metric="ttft",
    value=1.25,
    time=TIME,
    pool="chat",
    prompt_bucket="<=2k",
    node="n1",
    model="m",
    revision=4,
    trace_id="ab" * 16,
    request_id="cmpl-7",
    prompt_tokens=900,
    parts={"e2e": 2.0, "queue": 1.0, "prefill": 0.5, "decode": 0.5},
    batch={"running": 12.0, "waiting": 3.0, "kv_usage": 0.875, "step_tokens": 512.0, "peak_running": 16.0},
)
FOREIGN = WHOLE.model_copy(update={"request_id": "", "prompt_tokens": None, "parts": {}, "batch": {}})


class Asked(Client):
    """Answers with these exemplars, and keeps what it was asked."""

    def __init__(self, *items: Exemplar) -> None:
        self.items = list(items)
        self.asked: dict[str, Any] = {}

    def exemplars(self, metric: str = "ttft", **params: Any) -> Page[Exemplar]:
        self.asked = {"metric": metric, **{name: value for name, value in params.items() if value is not None}}
        return Page(items=self.items)


def shown(client: Client, params: Mapping[str, str]) -> str:
    return templates.get_template("fragments/exemplars.html").render(**context_of("exemplars", client, params))


@pytest.mark.parametrize(
    ("params", "asked"),
    [
        ({}, {"metric": "ttft", "window": "15m", "limit": 20}),
        ({"pool": "chat", "span": "1h"}, {"metric": "ttft", "pool": "chat", "window": "1h", "limit": 20}),
        (
            {"metric": "e2e", "at": "2026-03-01T12:00:00+00:00", "above": "0.5", "span": "1h"},
            {"metric": "e2e", "start": "2026-03-01T12:00:00+00:00", "window": "30s", "above": "0.5", "limit": 20},
        ),
    ],
)
def test_a_point_of_a_chart_asks_for_its_own_step(params: dict[str, str], asked: dict[str, Any]) -> None:
    client = Asked()
    assert "No such request is kept." in shown(client, params)
    assert client.asked == asked


def test_each_is_shown_with_its_waterfall_and_its_batch() -> None:
    text = shown(Asked(WHOLE, FOREIGN), {"above": "0.5"})
    first, second = text.split("<tr data-exemplar")[1:]
    assert "cmpl-7" in first and "1.25 s" in first and "12:00:07" in first and f"trace {'ab' * 16}" in first
    assert 'class="part-queue" style="width:50.00%" title="queue 1.00 s"' in first
    assert '<td title="at most 16">12</td>' in first and "<td>88 %</td>" in first and "<td>512</td>" in first
    # Nothing is known of another sender's: that is said, and no zero is shown.
    assert "abababababab" in second and "waterfall" not in second.split("</tr>")[0] and "<td>–</td>" in second
    assert "above 500 ms" in text


def test_a_step_without_any_says_why_and_leads_to_the_whole_span() -> None:
    asked = {"metric": "e2e", "pool": "chat & code", "span": "1h", "above": "0.5"}
    text = shown(Asked(), {**asked, "at": "2026-03-01T12:00:00+00:00"})
    assert "the slowest 5 are kept" in text
    assert 'href="/latency?pool=chat+%26+code&amp;span=1h&amp;metric=e2e#exemplars-title"' in text
    assert "slowest 5" not in shown(Asked(), asked)  # There is no wider span to look at.
    assert "slowest 5" not in shown(Asked(WHOLE), {**asked, "at": "2026-03-01T12:00:00+00:00"})


def test_a_threshold_that_is_none_is_told() -> None:
    with pytest.raises(BadRequest, match="above: wants a number"):
        shown(Asked(), {"above": "much"})
