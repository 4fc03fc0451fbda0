"""The latency page's requests behind a quantile: what is asked for, and how each is shown."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.client import Client
from controlplane.contract.bodies.pages import Page
from controlplane.contract.bodies.telemetry import Exemplar
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.errors import BadRequest
from tests.web.part_html import part_html
from web.pages.latency_page import PAGE

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

    def __init__(self, *items: Exemplar, log: Sequence[RequestRecord] = (), more: bool = False) -> None:
        self.items, self.log, self.more = list(items), list(log), more
        self.asked: dict[str, Any] = {}
        self.asked_log: dict[str, Any] = {}

    def exemplars(self, metric: str = "ttft", **params: Any) -> Page[Exemplar]:
        self.asked = {"metric": metric, **{name: value for name, value in params.items() if value is not None}}
        return Page(items=self.items)

    def requests(self, **params: Any) -> Page[RequestRecord]:
        self.asked_log = params
        return Page(items=self.log, next="500" if self.more else None)


def logged(name: str, arrival_s: float, ttft_s: float, e2e_s: float) -> RequestRecord:
    """A finished request that arrived so many seconds after `TIME`."""
    about = {"node": "n1", "pool": "chat", "model": "m", "revision": 4, "request_id": name, "finish_reason": "stop"}
    counts = {"prompt_tokens": 900, "cached_tokens": 0, "output_tokens": 8}
    parts = {"ttft": ttft_s, "e2e": e2e_s}
    return RequestRecord.model_validate(
        {**about, **counts, "arrival": TIME + timedelta(seconds=arrival_s), "parts": parts}
    )


def shown(client: Client, params: Mapping[str, str]) -> str:
    return part_html(PAGE, "exemplars", client, **params)


@pytest.mark.parametrize(
    ("params", "asked"),
    [
        ({}, {"metric": "ttft", "window": "900s", "limit": 20}),
        ({"pool": "chat", "from": "now-1h"}, {"metric": "ttft", "pool": "chat", "window": "3600s", "limit": 20}),
        (
            {"metric": "e2e", "at": "2026-03-01T12:00:00+00:00", "above": "0.5", "from": "now-1h"},
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
    assert re.search('class="part-queue" x="[0-9.]+%" width="50.00%" height="100%"><title>queue 1.00 s</title>', first)
    for figure in ('title="at most 16">12</td>', '<td class="number">88 %</td>', '<td class="number">512</td>'):
        assert figure in first
    # Nothing is known of another sender's: that is said, and no zero is shown.
    assert (
        "abababababab" in second
        and "waterfall" not in second.split("</tr>")[0]
        and '<td class="number">–</td>' in second
    )
    assert "above 500 ms" in text


def test_a_step_without_any_says_why_and_leads_to_the_whole_span() -> None:
    asked = {"metric": "e2e", "pool": "chat & code", "from": "now-1h", "above": "0.5"}
    text = shown(Asked(), {**asked, "at": "2026-03-01T12:00:00+00:00"})
    assert "Neither among the slowest of each minute nor in the log of 48 hours" in text
    assert 'href="/latency?metric=e2e&amp;from=now-1h&amp;to=now&amp;pool=chat+%26+code#exemplars-title"' in text
    assert "Neither" not in shown(Asked(), asked)  # There is no wider span to look at.
    assert "Neither" not in shown(Asked(WHOLE), {**asked, "at": "2026-03-01T12:00:00+00:00"})


def test_a_step_of_which_none_was_kept_is_looked_up_in_the_log() -> None:
    at = {"metric": "ttft", "pool": "chat", "from": "now-5m", "at": TIME.isoformat(), "above": "0.5"}
    # The step is of five seconds. What counts is when the first token came, not when the request did.
    log = [
        logged("second", 1.0, 0.52, 3.0),
        logged("first", -200.0, 203.0, 204.0),
        logged("too-quick", 1.0, 0.5, 9.0),
        logged("too-late", 4.9, 0.6, 1.0),
        logged("too-early", -3.0, 2.9, 9.0),
    ]
    client = Asked(log=log)
    text = shown(client, at)
    assert re.findall('data-exemplar="(.*?)"', text) == ["first", "second"]
    assert "the log of 48 hours" in text and "No such request" not in text
    wanted = {"pool": "chat", "order": "slowest", "limit": 500}
    assert client.asked_log == wanted | {"start": TIME - timedelta(minutes=10), "end": TIME + timedelta(seconds=5)}
    assert "Only the 500 slowest requests" in shown(Asked(log=log, more=True), at)
    # For e2e it is the end of the request that lies in the step.
    assert re.findall('data-exemplar="(.*?)"', shown(Asked(log=log), at | {"metric": "e2e"})) == ["first", "second"]
    # What was kept needs no log.
    kept = Asked(WHOLE, log=log)
    shown(kept, at)
    assert kept.asked_log == {}


@pytest.mark.parametrize("at", ["yesterday", "2026-03-01T12:00:00"])
def test_a_moment_that_is_none_is_told(at: str) -> None:
    with pytest.raises(BadRequest, match="at: wants a"):
        shown(Asked(), {"at": at})


def test_a_threshold_that_is_none_is_told() -> None:
    with pytest.raises(BadRequest, match="above: wants a number"):
        shown(Asked(), {"above": "much"})
