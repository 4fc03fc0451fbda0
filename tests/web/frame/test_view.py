"""Another view of the same page comes into the document that is there; whatever else is asked for is a new document."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.web.conftest import Bare, signed_in

pytestmark = [pytest.mark.browser, pytest.mark.slow]

MARK = "() => { window.marked = true; }"
MARKED = "() => window.marked === true"


def opened(page: Page, path: str = "/explore") -> Page:
    """A page whose stream runs, in a document that is told from any other."""
    with page.expect_response(lambda answer: "/live/" in answer.url):
        page.goto(path)
    page.evaluate(MARK)
    return page


def time_field(page: Page) -> Locator:
    return page.locator("form.bar select[name=from]")


def choose_six_hours(page: Page) -> None:
    time_field(page).select_option("now-6h")


def test_a_choice_of_the_bar_leaves_document_focus_and_stream_in_order(bare_page: Page) -> None:
    page = opened(bare_page)
    old = page.locator("#part-latency_map").element_handle()
    time_field(page).focus()
    with page.expect_request(lambda asked: "/live/explore?from=now-6h" in asked.url):
        choose_six_hours(page)
    page.wait_for_url("**/explore?from=now-6h")
    expect(page.locator("main[aria-busy]")).to_have_count(0)
    assert page.evaluate(MARKED)
    assert not old.evaluate("one => one.isConnected")
    expect(time_field(page)).to_be_focused()
    expect(time_field(page)).to_have_value("now-6h")
    assert "from=now-6h" in (page.get_by_role("link", name="Requests", exact=True).first.get_attribute("href") or "")
    expect(page.locator("[data-stream]")).to_have_count(1)
    expect(page.locator("#part-latency_map[data-refreshed]")).to_be_attached()
    expect(page.locator("#freshness")).to_have_text("live")


def test_the_way_back_shows_what_was_before(bare_page: Page) -> None:
    page = opened(bare_page)
    choose_six_hours(page)
    page.wait_for_url("**/explore?from=now-6h")
    expect(page.locator("main[aria-busy]")).to_have_count(0)
    page.go_back()
    page.wait_for_url("**/explore")
    expect(time_field(page)).to_have_value("now-15m")
    expect(page.locator("main[aria-busy]")).to_have_count(0)
    assert page.evaluate(MARKED)
    page.go_forward()
    expect(time_field(page)).to_have_value("now-6h")


def test_charts_and_their_tables_answer_in_what_came(bare_page: Page) -> None:
    page = opened(bare_page)
    choose_six_hours(page)
    page.wait_for_url("**/explore?from=now-6h")
    page.locator("#more-charts > summary").click()
    page.wait_for_url("**/explore?from=now-6h&charts=all")
    expect(page.locator("#more-charts[data-shown]")).to_have_count(1)
    figure = page.locator("#more-charts figure.chart", has=page.locator(".cursor[data-values]")).first
    figure.locator("button[data-table]").click()
    expect(figure.locator(".values table")).to_be_visible()
    assert page.evaluate(MARKED)


def test_a_links_view_is_asked_for_once_and_before_it_is_let_go(bare_page: Page) -> None:
    page = opened(bare_page)
    asked: list[str] = []
    page.on(
        "request", lambda one: asked.append(one.url) if "/explore?" in one.url and "/live/" not in one.url else None
    )
    page.locator("main nav.choices a").nth(1).hover()
    with page.expect_request(lambda one: "/explore?" in one.url):
        page.mouse.down()
    page.mouse.up()
    page.wait_for_url("**/explore?metric=*")
    expect(page.locator("main[aria-busy]")).to_have_count(0)
    expect(page.locator("main nav.choices a[aria-current]").first).to_have_attribute(
        "href", page.evaluate("() => location.pathname + location.search")
    )
    assert len(asked) == 1 and page.evaluate(MARKED)
    expect(page.locator("main")).to_be_focused()


def test_what_a_press_asked_for_that_was_taken_back_is_shown_to_nobody(bare_page: Page) -> None:
    page = opened(bare_page)
    asked: list[str] = []
    page.on(
        "request", lambda one: asked.append(one.url) if "/explore?" in one.url and "/live/" not in one.url else None
    )
    link = page.locator("main nav.choices a").nth(1)
    link.hover()
    with page.expect_request(lambda one: "/explore?" in one.url):
        page.mouse.down()
    page.mouse.move(5, 5)
    page.mouse.up()
    link.press("Enter")
    page.wait_for_url("**/explore?metric=*")
    expect(page.locator("main[aria-busy]")).to_have_count(0)
    assert len(asked) == 2 and page.evaluate(MARKED)


def pause(page: Page) -> None:
    page.locator("[data-action=pause]").click()


def open_requests(page: Page) -> None:
    page.get_by_role("link", name="Requests", exact=True).first.click()


@pytest.mark.parametrize("act", [pause, open_requests, lambda page: page.reload()], ids=["pause", "page", "reload"])
def test_what_is_no_view_is_a_new_document(bare_page: Page, act: Callable[[Page], Any]) -> None:
    page = opened(bare_page)
    with page.expect_event("load"):
        act(page)
    assert not page.evaluate(MARKED)


def test_a_browser_without_the_navigation_api_opens_a_document(browser: Browser, bare: Bare) -> None:
    context = signed_in(browser, bare.url, bare.token())
    context.add_init_script("Object.defineProperty(window, 'navigation', { value: undefined });")
    page = opened(context.new_page())
    with page.expect_event("load"):
        choose_six_hours(page)
    assert not page.evaluate(MARKED)
    expect(time_field(page)).to_have_value("now-6h")
    context.close()


def test_who_is_signed_out_meanwhile_comes_to_the_sign_in(browser: Browser, bare: Bare) -> None:
    context = signed_in(browser, bare.url, bare.token())
    page = opened(context.new_page())
    context.clear_cookies()
    choose_six_hours(page)
    page.wait_for_url(lambda url: "/login?next=" in url and "now-6h" in url)
    context.close()


def test_a_view_that_the_service_refuses_is_shown_as_it_says(bare_page: Page) -> None:
    page = opened(bare_page)
    with page.expect_event("load"):
        page.evaluate("() => location.assign('/explore?box=nonsense')")
    assert not page.evaluate(MARKED)
    expect(page.locator("h1")).not_to_have_text("Explore")


def test_the_last_of_two_choices_is_what_is_shown(bare_page: Page) -> None:
    page = opened(bare_page)
    held: list[Any] = []
    page.route("**/explore?from=now-6h", lambda route: held.append(route))
    choose_six_hours(page)
    page.wait_for_url("**/explore?from=now-6h")
    time_field(page).select_option("now-1h")
    page.wait_for_url("**/explore?from=now-1h")
    expect(page.locator("main[aria-busy]")).to_have_count(0)
    assert len(held) == 1
    expect(time_field(page)).to_have_value("now-1h")
    assert page.evaluate(MARKED)


def test_links_of_what_is_being_replaced_cannot_be_pressed(bare_page: Page) -> None:
    page = opened(bare_page)
    held: list[Any] = []
    page.route("**/explore?from=now-6h", lambda route: held.append(route))
    choose_six_hours(page)
    expect(page.locator("main[aria-busy]")).to_have_attribute("inert", "")
    page.locator("main nav.choices a").nth(1).click(force=True)
    page.wait_for_timeout(100)  # In which nothing comes of it.
    assert page.url.endswith("/explore?from=now-6h") and len(held) == 1
    held[0].continue_()
    expect(page.locator("main:not([inert])")).to_have_count(1)
    page.locator("main nav.choices a").nth(1).click()
    page.wait_for_url(lambda url: "metric=itl" in url and "from=now-6h" in url)


def test_cells_that_are_replaced_are_painted_no_more(page: Page) -> None:
    page.goto("/fleet")
    expect(page.locator("[data-node-cells] canvas")).to_be_visible()
    page.evaluate(MARK)
    for _ in range(4):
        page.locator("table.nodes th a").first.click()
        expect(page.locator("main[aria-busy]")).to_have_count(0)
    assert page.evaluate(MARKED)


GO_BACK = "() => { if (navigation.currentEntry.index > 2) history.back(); }"
"""Within what the test has opened."""
PRESS_LINK = "(n) => document.querySelectorAll('main nav.choices a')[n]?.click()"
UNFOLD = "() => { const more = document.getElementById('more-charts'); if (more) more.open = !more.open; }"


@pytest.mark.parametrize("seed", [1, 2])
def test_however_hurried_the_choices_one_view_and_one_stream_are_left(bare_page: Page, seed: int) -> None:
    page, draw = opened(bare_page), random.Random(seed)
    warned: list[str] = []
    page.on("console", lambda said: warned.append(said.text) if said.type in ("error", "warning") else None)
    choices: list[Callable[[], object]] = [
        lambda: time_field(page).select_option(draw.choice(["now-6h", "now-1h", "now-5m"]), no_wait_after=True),
        lambda: page.evaluate(GO_BACK),
        lambda: page.evaluate(PRESS_LINK, draw.randrange(6)),
        lambda: page.evaluate(UNFOLD),
        lambda: page.wait_for_timeout(draw.choice([0, 20, 100, 300])),  # What lies between two presses.
    ]
    for _ in range(60):
        draw.choice(choices)()
    expect(page.locator("main[aria-busy]")).to_have_count(0)
    expect(page.locator("[data-stream]")).to_have_count(1)
    expect(page.locator("#freshness")).to_have_text("live")
    assert page.evaluate(MARKED) and warned == []
    asked = page.evaluate("() => new URLSearchParams(location.search).get('from')")
    expect(time_field(page)).to_have_value(asked or "now-15m")
