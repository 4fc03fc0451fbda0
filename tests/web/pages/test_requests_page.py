"""The list of requests with its facets, and one request with what is usual and who shared its steps."""

import re
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest
from fastapi import FastAPI
from fastapi import Request as HttpRequest
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Page, expect

from controlplane.client import Client
from controlplane.contract.bodies.request_log import Facet, FacetValue, RequestDetail, RequestFacets
from controlplane.contract.bodies.workload import RequestRecord
from controlplane.contract.errors import BadRequest
from web import dashboard
from web.frame.rendering import part_drawn
from web.frame.selection import selection_of
from web.pages.requests_page import PAGE, address_of, around, batch_of, choices_of, filters_of, limits_of, notable

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def record(**more: Any) -> RequestRecord:
    told = {"node": "gpu-1", "pool": "chat", "model": "m", "revision": 3, "request_id": "a/b?c", "arrival": NOW}
    told |= {"prompt_tokens": 9, "cached_tokens": 0, "output_tokens": 4, "finish_reason": "stop", "parts": {}}
    return RequestRecord.model_validate(told | more)


def counted(*facets: tuple[str, dict[str, int]]) -> RequestFacets:
    made = [
        Facet(
            label=label,
            values=[FacetValue(value=value, requests=count) for value, count in values.items()],
            others=0,
            others_requests=0,
        )
        for label, values in facets
    ]
    return RequestFacets(start=NOW, end=NOW, found=9, looked_at=9, matching=9, facets=made)


def test_a_range_of_seconds_means_those_that_completed_in_the_span() -> None:
    plain = filters_of(selection_of({"pool": "chat", "cache_class": "miss"}, NOW))
    asked = {"pool": "chat", "metric": "e2e", "low": None, "high": None, "cache_class": "miss"}
    assert plain == {"role": "serving", **asked}
    ranged = selection_of({"metric": "ttft", "min": "1.2", "max": "3"}, NOW)
    assert filters_of(ranged) | {"timed_by": "completion", "low": 1.2, "high": 3.0} == filters_of(ranged)
    assert limits_of(ranged) == "ttft at least 1.20 s and at most 3.00 s"


@pytest.mark.parametrize(
    ("name", "value"), [("min", "x"), ("max", "-1"), ("min", "nan"), ("metric", "speed"), ("max", "1e99")]
)
def test_a_wrong_parameter_is_refused_by_its_name(name: str, value: str) -> None:
    with pytest.raises(BadRequest) as refused:
        filters_of(selection_of({name: value}, NOW))
    assert refused.value.detail["field"] == name


def test_a_choice_of_a_facet_is_a_link_that_chooses_it_or_gives_it_up() -> None:
    selection = selection_of({"node": "gpu-1", "cursor": "40", "order": "slowest"}, NOW)
    nodes, cache = choices_of(
        counted(("node", {"gpu-1": 5, "gpu-2": 4}), ("model", {"m": 9}), ("cache_class", {"miss": 8, "hit": 1})),
        selection,
    )
    assert [(one.value, one.chosen, one.query) for one in nodes.first] == [
        ("gpu-1", True, "?order=slowest"),
        ("gpu-2", False, "?order=slowest&node=gpu-2"),
    ]
    assert cache.first[0].query == "?order=slowest&node=gpu-1&cache_class=miss"


def test_a_part_is_told_of_that_took_twice_what_is_usual_and_counts() -> None:
    usual = {"queue": 0.04, "prefill": 0.5, "tokenize": 1e-5}
    parts = {"e2e": 2.0, "queue": 1.2, "prefill": 0.6, "tokenize": 4e-5}
    assert notable(parts, usual) == ["queue 1.20 s, usually 40 ms"]


def test_the_batch_is_told_with_its_peaks() -> None:
    figures = {"running": 3.0, "peak_running": 7.0, "kv_usage": 0.5}
    assert batch_of(record(batch=figures)) == [("running", 3.0, 7.0), ("kv_usage", 0.5, None)]


@pytest.mark.slow
@given(st.text(min_size=1, max_size=60).filter(lambda text: text.isprintable()))
def test_an_address_of_a_request_says_which_whatever_its_id_is(request_id: str) -> None:
    address = urlsplit(address_of(record(request_id=request_id), selection_of({"from": "now-1h"}, NOW)))
    assert re.fullmatch(r"/requests/[\w.~%-]+", address.path, re.ASCII)
    assert parse_qs(address.query)["on"] == ["gpu-1"]


def test_around_a_request_of_just_now_ends_now() -> None:
    query = parse_qs(around(record(), selection_of({}, NOW))[1:])
    assert (query["to"], query["node"]) == (["2026-03-01T12:00:00+00:00"], ["gpu-1"])


class OneRequest:
    """Answers with a request of this trace, of which nothing else is known."""

    def __init__(self, trace_id: str) -> None:
        self._trace_id = trace_id

    def request(self, request_id: str, **_: Any) -> RequestDetail:
        usual = {"start": NOW, "end": NOW, "pool": "chat", "prompt_bucket": "<=128", "relative_error": 0.0, "parts": {}}
        told = {"source": "log", "prompt_bucket": "<=128", "cache_class": "miss", "others": [], "peers": []}
        whole = told | {"request": record(trace_id=self._trace_id), "typical": usual, "peers_found": 0}
        return RequestDetail.model_validate(whole | {"peers_all": True})


def about_one(trace_id: str, trace_url: str | None) -> str:
    """The part of a request's page as the dashboard draws it that was told where traces are shown."""
    mounted = FastAPI()
    dashboard.mount(mounted, "http://127.0.0.1:1", trace_url=trace_url)
    asked = HttpRequest({"type": "http", "path": "/", "headers": [], "app": mounted.router.default})
    client, selection = cast(Client, OneRequest(trace_id)), selection_of({"request_id": "a"}, NOW)
    return str(part_drawn(asked, PAGE.part("request"), client, selection))


def test_a_request_leads_to_its_trace_where_the_service_was_told_where_traces_are() -> None:
    url = "https://tempo.example/trace/{trace_id}?from=tailwright"
    page = about_one("0af7651916cd43dd", url)
    assert '<a href="https://tempo.example/trace/0af7651916cd43dd?from=tailwright" rel="noreferrer"' in page
    assert 'data-copy="0af7651916cd43dd" aria-label="Copy the trace&#39;s id"' in page
    assert 'href="https://tempo.example/trace/%22%3E%3Cb%3E%2F..?from' in about_one('"><b>/..', url)
    for without in (about_one("0af7", None), about_one("", url)):
        assert "data-trace" not in without


@pytest.mark.browser
def test_from_the_list_to_one_request_and_its_id_copied(page: Page, stack: Any) -> None:
    for _ in range(3):
        assert stack.complete("def main():", 6).status_code == 200
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto("/requests?pool=demo&from=now-1h")
    first = page.locator("#part-requests [data-row]").first
    expect(first).to_be_visible(timeout=60_000)
    first.click()
    expect(page.locator("h1")).to_contain_text("Request")
    told = page.locator("h1 code").inner_text()
    expect(page.get_by_role("figure", name="Where the time went")).to_contain_text("prefill")
    page.get_by_role("button", name="Copy the id").click()
    expect(page.locator("[data-copy]").first).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == told
    page.goto(f"/requests?q={told}&from=now-1h")
    expect(page.locator("#part-requests [data-row]")).to_have_count(1)


@pytest.mark.browser
def test_a_request_that_nobody_has_is_said_to_be_none_and_leads_to_the_list(page: Page) -> None:
    answer = page.goto("/requests/of-nobody")
    assert answer is not None and answer.status == 404
    expect(page.locator("main")).to_contain_text("of-nobody")
    expect(page.locator("main").get_by_role("link", name="Requests")).to_have_attribute("href", "/requests")


@pytest.mark.browser
def test_a_wrong_range_refuses_the_page(page: Page) -> None:
    answer = page.goto("/requests?min=x")
    assert answer is not None and answer.status == 400
    expect(page.locator("main")).to_contain_text("min: wants a number of seconds")
