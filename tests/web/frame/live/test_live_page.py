"""A page in Chromium says how fresh it is: when the service hangs, refuses or restarts, and under a reader."""

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, Request, Route, expect

from agents.demo.processes import Processes
from controlplane.client import Client
from controlplane.contract.bodies.alerts import AlertRuleCreate
from tests.web.conftest import Bare, checked, signed_in, started

pytestmark = pytest.mark.browser

QUICK = ("-m", "tests.web.frame.live.quick_streams")
SILENT_MS = 8_000
"""Longer than the silence after which a page that is seen says so."""

COLOUR = "(element) => getComputedStyle(element).color"
REFRESHED = "(before) => Number(document.querySelector('[data-part]').dataset.refreshed || 0) > before"
SEE = """(hidden) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bare]:
    """As of all pages' tests, with quick streams."""
    folder = tmp_path_factory.mktemp("bare")
    yield from started(Bare(folder, Processes(folder / "logs"), QUICK))


@pytest.fixture
def timed_page(browser: Any, bare: Bare) -> Iterator[Page]:
    """A page over `bare` whose clock the test may put on."""
    context = signed_in(browser, bare.url, bare.token())
    context.clock.install()
    yield from checked(context)
    context.close()


def refreshed(page: Page) -> None:
    """Waits until the page's first part was refreshed once more."""
    before = page.evaluate("Number(document.querySelector('[data-part]').dataset.refreshed || 0)")
    page.wait_for_function(REFRESHED, arg=before)


def test_a_service_that_hangs_is_told_and_live_again_after(timed_page: Page, bare: Bare) -> None:
    timed_page.goto("/studies")
    status, as_of, trouble = (
        timed_page.get_by_role("status"),
        timed_page.locator("#as-of"),
        timed_page.locator(".trouble"),
    )
    expect(status).to_have_text("live")
    refreshed(timed_page)
    os.kill(bare.child.process.pid, signal.SIGSTOP)
    try:
        timed_page.clock.run_for(SILENT_MS)
        expect(status).to_have_text("stale: the service does not answer")
        since = timed_page.locator("[data-part]").get_attribute("data-as-of")
        expect(trouble).to_have_text(f"As of {since}, not refreshed since: the service does not answer")
        assert status.evaluate(COLOUR) == trouble.evaluate(COLOUR) != timed_page.locator("h1").evaluate(COLOUR)
        stood = as_of.inner_text()
    finally:
        os.kill(bare.child.process.pid, signal.SIGCONT)
    expect(status).to_have_text("live")
    expect(trouble).to_be_hidden()
    expect(as_of).not_to_have_text(stood)
    refreshed(timed_page)


def event(name: str, **data: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def test_what_the_service_refuses_is_told_in_its_own_words_until_it_does_not(bare_page: Page) -> None:
    def answered(route: Route) -> None:
        told = event("trouble", part="studies", message="pool: there is none <b>")
        told += event("beat", time="2026-03-01T08:57:12+00:00", parts=[])
        route.fulfill(body=told, content_type="text/event-stream")

    bare_page.route("**/live/**", answered)
    bare_page.goto("/studies")
    kept = bare_page.locator("[data-part]").inner_text()
    expect(bare_page.locator(".trouble")).to_contain_text("not refreshed since: pool: there is none <b>")
    expect(bare_page.get_by_role("status")).to_have_text("stale: pool: there is none <b>")
    expect(bare_page.locator("#as-of")).to_have_text("08:57:12 UTC")
    assert bare_page.locator("[data-part]").inner_text() == kept
    bare_page.unroute("**/live/**")
    expect(bare_page.get_by_role("status")).to_have_text("live")
    expect(bare_page.locator(".trouble")).to_be_hidden()


def test_trouble_that_a_page_came_with_ends_with_the_parts_first_refresh(bare_page: Page) -> None:
    def troubled(route: Route) -> None:
        answer = route.fetch()
        text = answer.text().replace('data-trouble="" hidden', 'data-trouble="it was busy"')
        assert "it was busy" in text
        route.fulfill(response=answer, body=text)

    bare_page.route("**/studies", troubled)
    bare_page.goto("/studies")
    refreshed(bare_page)
    expect(bare_page.get_by_role("status")).to_have_text("live")
    expect(bare_page.locator(".trouble")).to_be_hidden()


def test_a_page_with_a_wrong_range_is_an_error_and_no_empty_boxes(bare_page: Page) -> None:
    answer = bare_page.goto("/fleet?from=99y")
    assert answer is not None and answer.status == 400
    expect(bare_page.locator("main")).to_contain_text("from: wants now, now-15m")
    expect(bare_page.locator("[data-part]")).to_have_count(0)
    expect(bare_page.locator("main").get_by_role("link", name="Fleet")).to_have_attribute("href", "/fleet")
    expect(bare_page.locator("#freshness")).to_have_count(0)  # Nothing on it refreshes.


def test_a_paused_page_asks_for_nothing_and_says_so(bare_page: Page) -> None:
    asked: list[str] = []
    bare_page.on("request", lambda request: asked.append(request.url))
    bare_page.goto("/fleet?refresh=off")
    expect(bare_page.get_by_role("status")).to_have_text("paused")
    expect(bare_page.locator("[data-stream]")).to_have_count(0)
    assert not [url for url in asked if "/live/" in url]
    bare_page.get_by_role("link", name="Go on").click()
    expect(bare_page.get_by_role("status")).to_have_text("live")
    refreshed(bare_page)


def test_a_part_with_the_focus_in_it_goes_on_refreshing(bare_page: Page, bare: Bare) -> None:
    bare_page.goto("/ledger")
    part = bare_page.locator("#part-ledger")
    summary = part.locator("summary").first
    summary.focus()
    summary.press("Enter")
    expect(part.locator("details").first).to_have_attribute("open", "")
    summary.evaluate("(summary) => { window.focused = summary; }")
    part.locator("th").first.evaluate("(head) => getSelection().selectAllChildren(head)")
    with bare.client() as client:
        client.create_alert_rule(AlertRuleCreate.model_validate({"name": "one more", "condition": {"kind": "drift"}}))
    expect(part).to_contain_text("one more")
    assert bare_page.evaluate("document.activeElement === window.focused")
    assert bare_page.evaluate("window.focused.parentElement.open && window.focused.isConnected")
    assert bare_page.evaluate("getSelection().toString().trim()") != ""


BROUGHT = """
window.brought = 0;
addEventListener("htmx:sse:after:message", (event) => { if (!event.detail.message.event) window.brought += 1; }, true);
"""
"""Counts the parts that streams bring."""
STREAM = "document.querySelector('[data-stream]')._htmx.sse"


def test_a_stream_brings_what_has_changed_alone_also_when_it_comes_again(bare_page: Page, bare: Bare) -> None:
    begun: list[Request] = []
    bare_page.on("request", lambda request: begun.append(request) if "/live/" in request.url else None)
    bare_page.add_init_script(BROUGHT)
    bare_page.goto("/alerting")
    refreshed(bare_page)
    assert bare_page.evaluate("window.brought") == 0  # It came with the page.
    with bare.client() as client:
        client.create_alert_rule(AlertRuleCreate.model_validate({"name": "brought", "condition": {"kind": "drift"}}))
    expect(bare_page.locator("[data-part]")).to_contain_text("brought")
    bare_page.evaluate(f"{STREAM}.reader.cancel()")
    refreshed(bare_page)
    assert bare_page.evaluate("window.brought") == 1 and len(begun) == 2
    assert "fresh=rules." in begun[0].url and "last-event-id" not in begun[0].all_headers()
    assert begun[1].all_headers()["last-event-id"].startswith("rules.")


def test_a_stream_that_is_begun_anew_does_not_say_what_the_page_once_came_with(bare_page: Page, bare: Bare) -> None:
    held: list[Route] = []
    bare_page.goto("/alerting")
    with bare.client() as client:
        client.create_alert_rule(AlertRuleCreate.model_validate({"name": "since", "condition": {"kind": "drift"}}))
    expect(bare_page.locator("[data-part]")).to_contain_text("since")
    bare_page.route("**/live/**", lambda route: held.append(route))
    bare_page.evaluate(f"{STREAM}.reader.cancel()")
    bare_page.wait_for_function(f"() => !{STREAM}.reader")
    while not held:
        bare_page.wait_for_timeout(50)
    bare_page.evaluate(f"{STREAM}.abortController.abort()")  # As a stream that never came to be.
    while len(held) < 2:
        bare_page.wait_for_timeout(50)
    assert "fresh=rules." in held[0].request.url and "fresh" not in held[1].request.url
    held[1].continue_()
    refreshed(bare_page)


def test_an_ended_session_leads_to_sign_in_and_back(browser: Any, bare: Bare) -> None:
    context = signed_in(browser, bare.url, bare.token())
    opened = context.new_page()
    opened.goto("/studies?pool=a")
    refreshed(opened)
    secret = next(cookie["value"] for cookie in context.cookies() if cookie["name"] == "tailwright_session")
    with Client(bare.url, secret) as client:
        client.end_session()
    expect(opened).to_have_url(f"{bare.url}/login?next=%2Fstudies%3Fpool%3Da")
    context.close()


def test_a_hidden_page_has_no_stream_and_a_seen_one_has_one(timed_page: Page) -> None:
    begun: list[Request] = []
    timed_page.on("request", lambda request: begun.append(request) if "/live/" in request.url else None)
    timed_page.goto("/studies")
    refreshed(timed_page)
    timed_page.evaluate(SEE, True)
    timed_page.wait_for_function("() => !document.querySelector('[data-stream]')._htmx.sse.reader")
    before = timed_page.locator("[data-part]").get_attribute("data-refreshed")
    timed_page.clock.run_for(SILENT_MS)
    assert timed_page.locator("[data-part]").get_attribute("data-refreshed") == before and len(begun) == 1
    expect(timed_page.get_by_role("status")).to_have_text("live")
    timed_page.evaluate(SEE, False)
    refreshed(timed_page)
    assert len(begun) == 2


def test_a_page_outlives_a_restart_of_its_service(timed_page: Page, bare: Bare) -> None:
    timed_page.goto("/studies")
    refreshed(timed_page)
    bare.end()
    try:
        timed_page.clock.run_for(SILENT_MS)
        expect(timed_page.get_by_role("status")).to_have_text("stale: the service does not answer")
    finally:
        bare.start()
    timed_page.clock.run_for(SILENT_MS)
    expect(timed_page.get_by_role("status")).to_have_text("live")
    refreshed(timed_page)


def test_a_first_connection_that_fails_is_tried_again(timed_page: Page) -> None:
    refused: list[Route] = []

    def refuse(route: Route) -> None:
        refused.append(route)
        if len(refused) > 2:
            route.continue_()
        elif len(refused) == 2:
            route.fulfill(status=503, body='{"error": {}}', content_type="application/json")
        else:
            route.abort("connectionrefused")

    timed_page.route("**/live/**", refuse)
    timed_page.goto("/studies")
    while len(refused) < 3:
        timed_page.clock.run_for(500)
    refreshed(timed_page)
    assert len(refused) == 3
    expect(timed_page.get_by_role("status")).to_have_text("live")


def test_a_stream_begins_however_late_its_script_comes(bare_page: Page) -> None:
    held: list[Route] = []
    bare_page.route("**/hx-sse.min.*", lambda route: held.append(route))
    bare_page.goto("/studies", wait_until="commit")
    bare_page.wait_for_function("() => window.htmx")
    # htmx has looked at the page by the next task.
    bare_page.evaluate("() => new Promise((done) => setTimeout(done))")
    (late,) = held
    late.continue_()
    refreshed(bare_page)
    expect(bare_page.get_by_role("status")).to_have_text("live")
