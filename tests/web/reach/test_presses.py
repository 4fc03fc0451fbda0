"""What the benchmark of presses measures is what a person waits for: a handler that is busy, a page that is late."""

import pytest
from playwright.sync_api import Browser, Page, Route

from benchmarks.dashboard_measures.interactions import FASTEST_MS, TIMES, WATCHED, Interaction, led_on, times_of

BUSY_MS, LATE_MS = 120, 200
PAGE = f"""<!doctype html><title>.</title><p>seen</p><button id="quick">0</button><button id="busy">0</button>
<a href="/late">late</a><button id="view">view</button><script>
  quick.onclick = () => {{ quick.textContent++; }};
  busy.onclick = () => {{
    for (const end = performance.now() + {BUSY_MS}; performance.now() < end;);
    busy.textContent++;
  }};
  const told = (name) => document.dispatchEvent(new CustomEvent(name));
  view.onclick = () => {{
    history.pushState(null, "", "?view");
    setTimeout(told, {LATE_MS}, "tailwright:frame");
    setTimeout(told, {2 * LATE_MS}, "tailwright:view");
  }};
</script>"""


@pytest.fixture
def page(browser: Browser) -> Page:
    context = browser.new_context(base_url="http://measured.example")
    context.add_init_script(WATCHED)
    page = context.new_page()

    def answer(route: Route) -> None:
        if route.request.url.endswith("/late"):
            page.wait_for_timeout(LATE_MS)
        route.fulfill(content_type="text/html", body=PAGE)

    context.route("**/*", answer)
    return page


@pytest.mark.browser
def test_a_press_takes_until_it_is_painted(page: Page) -> None:
    found = {
        name: times_of(page, Interaction(name, "/", lambda page, name=name: page.locator(f"#{name}").click()))
        for name in ("quick", "busy")
    }
    assert page.locator("#busy").inner_text() == str(TIMES)
    assert len(found["quick"]) == TIMES and min(found["quick"]) >= FASTEST_MS
    assert min(found["busy"]) >= BUSY_MS - 8  # The browser rounds to 8 ms.


@pytest.mark.browser
def test_another_page_takes_until_it_is_painted(page: Page) -> None:
    late = Interaction("late", "/", lambda page: page.locator("a").click(), leads_on=True)
    (times,) = led_on([page], late)
    assert min(first for first, _ in times) >= LATE_MS


@pytest.mark.browser
def test_another_view_takes_until_it_is_painted_first_and_whole(page: Page) -> None:
    view = Interaction("view", "/", lambda page: page.locator("#view").click(), leads_on=True)
    (times,) = led_on([page], view)
    assert len(times) == TIMES
    for first, whole in times:
        assert first >= LATE_MS and whole >= 2 * LATE_MS and whole > first
