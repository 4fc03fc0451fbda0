"""Where the time goes, of all requests and of the slowest: means of the log's records, over time and in all."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.contract.bodies.pages import Page
from controlplane.contract.bodies.telemetry import QuantilesAnswer, SharesAnswer
from controlplane.contract.bodies.workload import RequestRecord
from web.explore.decomposition import PAGE_LENGTH, by_step, mean_parts, means, tail_chart, two_stacks
from web.frame.selection import selection_of

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
END = START + timedelta(minutes=5)
PARAMS = {"from": START.isoformat(), "to": END.isoformat()}


def request(at_s: float, number: int = 0, **parts: float) -> RequestRecord:
    told = {"node": "n", "pool": "chat", "model": "m", "revision": 1, "request_id": f"r-{number}", "prompt_tokens": 9}
    told |= {"cached_tokens": 0, "output_tokens": 4, "finish_reason": "stop"}
    return RequestRecord.model_validate({**told, "arrival": START + timedelta(seconds=at_s), "parts": parts})


class Told:
    """Answers with these requests, in pages, and one quantile."""

    def __init__(self, *requests: RequestRecord, low: float | None = 0.5, shares: dict[str, float] | None = None):
        self._requests, self._low = requests, low
        self._shares = shares or {}
        self.asked: list[dict[str, Any]] = []

    def quantiles(self, metric: str, q: tuple[float, ...], **_: Any) -> QuantilesAnswer:
        series = [] if self._low is None else [{"labels": {}, "count": 9, "quantiles": {str(q[0]): self._low}}]
        told = {"metric": metric, "unit": "s", "start": START, "end": END, "relative_error": 0.01, "series": series}
        return QuantilesAnswer.model_validate(told)

    def requests(self, cursor: str | None = None, limit: int = 0, **asked: Any) -> Page[RequestRecord]:
        self.asked.append(asked)
        first = int(cursor or 0)
        more = str(first + limit) if len(self._requests) > first + limit else None
        return Page(items=list(self._requests[first : first + limit]), next=more)

    def shares(self, **_: Any) -> SharesAnswer:
        whole = {"labels": {}, "requests": 4, "e2e_s": 8.0, "shares": self._shares, "counts": {}, "error": 0.0}
        told = {"start": START, "end": END, "error": 0.0, "series": [whole] if self._shares else []}
        return SharesAnswer.model_validate(told)

    def ledger(self, **_: Any) -> list[Any]:
        return []


def asked_of(what: Any, client: Told, **params: str) -> dict[str, Any]:
    return what(client, selection_of(PARAMS | params, START))  # type: ignore[no-any-return]


def test_a_request_is_of_the_step_in_which_its_value_was_complete() -> None:
    one = request(8, ttft=1.0, e2e=4.0, queue=0.5, decode=3.0)
    assert by_step([one], "ttft", START, 10) == [(START.timestamp(), {"queue": 0.5, "decode": 3.0})]
    assert by_step([one], "e2e", START, 10) == [(START.timestamp() + 10, {"queue": 0.5, "decode": 3.0})]


@given(st.lists(st.dictionaries(st.sampled_from(["queue", "prefill", "decode"]), st.floats(0, 9)), min_size=1))
def test_the_means_of_the_parts_add_up_to_the_mean_of_their_sums(parts: list[dict[str, float]]) -> None:
    found = means([request(0, **one) for one in parts])
    assert sum(found.values()) == pytest.approx(sum(sum(one.values()) for one in parts) / len(parts))


def test_the_mean_of_all_is_of_every_series() -> None:
    answer = Told(shares={"queue": 0.25, "decode": 0.75}).shares()
    assert mean_parts(answer) == {"queue": 0.5, "decode": 1.5}
    assert mean_parts(Told().shares()) == {}


def test_the_tail_is_what_the_quantile_asked_for_says() -> None:
    client = Told(request(3, ttft=0.6, e2e=2.0, queue=0.4, decode=1.6), shares={"queue": 0.1, "decode": 0.9})
    shown = asked_of(two_stacks, client, tail="p99", pool="chat")
    assert client.asked[0] | {"low": 0.5, "metric": "ttft", "pool": "chat"} == client.asked[0]
    assert client.asked[0]["timed_by"] == "completion" and client.asked[0]["order"] == "slowest"
    assert [stack.row.name for stack in shown["stacks"].stacks] == ["all requests", "above TTFT p99"]
    assert shown["words"] == "1 requests above 500 ms"


def test_of_a_tail_that_is_too_long_the_slowest_are_shown_and_that_is_said() -> None:
    slow = [request(3, number, ttft=9.0 - number / 1000, e2e=9.0, queue=9.0) for number in range(2 * PAGE_LENGTH + 1)]
    shown = asked_of(tail_chart, Told(*slow))
    assert shown["count"] == 2 * PAGE_LENGTH
    assert shown["accuracy"] == "the slowest 1,000 requests above 8.00 s; there are more"


def test_a_log_without_them_says_so() -> None:
    shown = asked_of(two_stacks, Told(shares={"queue": 1.0}))
    assert shown["stacks"] is None and "48 hours" in shown["words"]
    client = Told(low=None)
    assert asked_of(tail_chart, client)["count"] == 0 and client.asked == []
