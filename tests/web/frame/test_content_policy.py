"""Each page in a real Chromium under its content security policy, and what a page of another origin achieves."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.rollouts import Rollout, RolloutCreate
from tests.web.conftest import signed_in
from web.dashboard import PAGES

pytestmark = pytest.mark.browser

LISTEN = """document.addEventListener("securitypolicyviolation", (event) => {
    window.violations = [...(window.violations || []), event.effectiveDirective + " " + event.blockedURI];
});"""
ADDRESSES = [page.path for page in PAGES.by_name.values() if "{" not in page.path]
ADDRESSES += ["/nodes/node-1", "/gallery", "/settings?tab=tokens"]


def violations(page: Page, path: str, ready: str) -> list[str]:
    page.goto(path)
    expect(page.locator(ready).first).to_be_visible(timeout=120_000)  # The API's pages draw a large document.
    return [f"{path}: {one}" for one in page.evaluate("window.violations || []")]


def proposed(stack: Any) -> Rollout:
    with stack.client() as client:
        base = next(node.desired_revision or node.effective.revision for node in client.nodes() if node.effective)
        revision = client.create_config(RevisionCreate(knobs={"max_num_seqs": 14}, base=base, note="forms"))
        made: Rollout = client.create_rollout(
            RolloutCreate(pool="demo", revision=revision.number, start=False, reason="forms")
        )
    return made


@contextmanager
def another_origin(html: str) -> Iterator[str]:
    """The address of a page on another port: the same site, so cookies come along, but another origin."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def test_no_page_breaks_its_policy_or_asks_elsewhere(page: Page, stack: Any) -> None:
    told: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: told.append(message.text) if message.type in ("error", "warning") else None)
    page.on("request", lambda request: asked.append(request.url))
    page.add_init_script(LISTEN)
    for number in range(3):
        assert stack.complete(f"def f{number}(x):\n", 12).status_code == 200
    found: list[str] = []
    for path in ADDRESSES:
        found += violations(page, path, "h1")
    rollout = proposed(stack)
    found += violations(page, f"/rollouts/{rollout.id}", "h1")
    # What the stream brings in, the bar's choices, and a page that is not.
    page.wait_for_function("() => document.querySelector('[data-part]').dataset.refreshed")
    page.goto("/studies")
    page.locator("select[name=from]").select_option("now-1h")
    page.wait_for_url("**/studies?*from=now-1h*")
    found += violations(page, "/studies?from=now-1h", "[data-refreshed]")
    assert told == []
    found += violations(page, "/nope", "h1")
    assert told.pop().startswith("Failed to load resource: the server responded with a status of 404")
    found += violations(page, "/docs", ".information-container .title")
    page.locator(".opblock-summary, .opblock-tag").first.click()
    found += page.evaluate("window.violations || []")
    found += violations(page, "/login", "h1")
    assert (found, told) == ([], [])
    assert {url.split(":")[0] for url in asked if not url.startswith(stack.url + "/")} <= {"data"}


def test_pages_run_no_text(page: Page) -> None:
    """The policy is what keeps htmx from evaluating, too: nothing on the page wants it to."""
    page.goto("/studies")
    page.wait_for_function("() => document.querySelector('[data-part]').dataset.refreshed")
    # Later, for what the test itself evaluates is not under the policy.
    later = "try { eval('1'); done('it ran'); } catch (error) { done(error.name); }"
    assert page.evaluate(f"() => new Promise((done) => setTimeout(() => {{ {later} }}))") == "EvalError"


@pytest.fixture
def operator_page(browser: Any, stack: Any) -> Iterator[Page]:
    """Signed in as one who may act."""
    context = signed_in(browser, stack.url, stack.fleet.token("admin-token"))
    yield context.new_page()
    context.close()


def test_the_pages_own_forms_pass(operator_page: Page, stack: Any) -> None:
    rollout = proposed(stack)
    operator_page.goto(f"/rollouts/{rollout.id}")
    with stack.client() as client:
        operator_page.get_by_role("button", name="Start").click()
        expect(operator_page.get_by_role("button", name="Start")).to_have_count(0)
        client.cancel_rollout(rollout.id)


@pytest.mark.parametrize("policy", ["", '<meta name="referrer" content="no-referrer">'])
def test_a_form_of_another_origin_changes_nothing(operator_page: Page, stack: Any, policy: str) -> None:
    rollout = proposed(stack)
    form = f'{policy}<form method="post" action="{stack.url}/rollouts/{rollout.id}/start"><button>Win</button></form>'
    with another_origin(form) as address, stack.client() as client:
        operator_page.goto(address)
        with operator_page.expect_response(f"{stack.url}/rollouts/**") as answered:
            operator_page.get_by_role("button", name="Win").click()
        assert answered.value.status == 403
        assert client.rollout(rollout.id).phase == "proposed"
        client.cancel_rollout(rollout.id)


def test_no_page_stands_in_anothers_frame(page: Page, stack: Any) -> None:
    with another_origin(f'<iframe src="{stack.url}/rollouts"></iframe>') as address:
        page.goto(address)
        frame = page.frames[-1]
        frame.wait_for_load_state()
        assert frame.url.startswith("chrome-error:")


def test_a_link_signs_in_once_and_signing_out_ends_it(browser: Any, stack: Any) -> None:
    link = stack.fleet.sign_in_link()
    context: BrowserContext = browser.new_context(base_url=stack.url)
    opened = context.new_page()
    opened.goto(link)
    expect(opened).to_have_url(f"{stack.url}/")
    kept = context.cookies()
    assert [(cookie["httpOnly"], cookie["sameSite"]) for cookie in kept] == [(True, "Lax")]
    opened.get_by_role("button", name="Sign out").click()
    expect(opened).to_have_url(f"{stack.url}/login")
    context.add_cookies(kept)
    opened.goto("/ledger")
    expect(opened).to_have_url(f"{stack.url}/login?next=/ledger")
    opened.goto(link)
    expect(opened.get_by_role("alert")).to_contain_text("was used")
    context.close()


def test_a_stream_refused_while_signing_out_leads_nowhere_else(browser: Any, stack: Any) -> None:
    context: BrowserContext = browser.new_context(base_url=stack.url)
    opened = context.new_page()
    opened.goto(stack.fleet.sign_in_link())
    opened.wait_for_function("() => document.querySelector('[data-stream]')._htmx?.sse?.reader")
    leaving: list[Route] = []
    refused: list[Route] = []

    def hold(route: Route) -> None:
        leaving.append(route)

    def refuse(route: Route) -> None:
        refused.append(route)
        route.fulfill(status=401, body="{}", content_type="application/json")

    led: list[str] = []
    opened.on("request", lambda request: led.append(request.url) if request.is_navigation_request() else None)
    opened.route("**/logout", hold)
    opened.route("**/live/**", refuse)
    # Not Playwright's click, which waits for where it leads; the stream breaks while the answer is awaited.
    breaks = "setTimeout(() => document.querySelector('[data-stream]')._htmx.sse.reader.cancel(), 300);"
    opened.get_by_role("button", name="Sign out").evaluate(f"(button) => {{ {breaks} button.click(); }}")
    # The second try comes after what the first one has led to; a page that was led away makes none.
    while (len(refused) < 2 or not leaving) and not any("/login" in url for url in led):
        opened.wait_for_timeout(100)
    assert [url for url in led if "/login" in url] == []
    leaving[0].continue_()
    expect(opened).to_have_url(f"{stack.url}/login")
    context.close()


def test_a_link_on_another_page_asks_first(browser: Any, stack: Any) -> None:
    context: BrowserContext = browser.new_context(base_url=stack.url)
    opened = context.new_page()
    with another_origin(f'<a href="{stack.fleet.sign_in_link()}">Prize</a>') as address:
        opened.goto(address)
        opened.get_by_role("link", name="Prize").click()
        assert context.cookies() == []
        opened.get_by_role("button", name="Sign in").click()
        expect(opened).to_have_url(f"{stack.url}/")
    context.close()
