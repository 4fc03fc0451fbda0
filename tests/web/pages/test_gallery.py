"""The gallery shows each component in each state, light and dark, and the switch between them works without script."""

from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import signed_in
from web.frame.states import WORDS

pytestmark = pytest.mark.browser

GROUND = "() => getComputedStyle(document.body).backgroundColor"


def test_each_kind_of_state_is_shown_with_its_shape(bare_page: Page) -> None:
    bare_page.goto("/gallery")
    for kind, words in WORDS.items():
        shown = bare_page.locator(f"[data-kind={kind}] .tag.{kind}")
        expect(shown).to_have_count(len(words))
        box = shown.locator("svg.shape").first.bounding_box()
        assert box is not None and box["width"] >= 10


def test_charts_are_drawn_whole_and_without_script(bare_page: Page) -> None:
    bare_page.goto("/gallery")
    for name, lines, marks in (("A change", 3, 3), ("A gap, coarse", 3, 0), ("Nothing", 0, 0)):
        figure = bare_page.get_by_role("figure", name=name, exact=True)
        expect(figure.locator(".area .curve")).to_have_count(lines)
        expect(figure.locator(".mark")).to_have_count(marks)
    expect(bare_page.get_by_role("figure", name="Nothing", exact=True)).to_contain_text("no data in this span")
    expect(bare_page.get_by_role("img", name="A change: p99 rose by 115 %, from 410 ms to 880 ms.")).to_be_visible()


@pytest.mark.parametrize("system", ["light", "dark"])
def test_the_theme_is_the_systems_until_a_reader_chooses(browser: Any, bare: Any, system: str) -> None:
    made = signed_in(browser, bare.url, bare.token())
    cookies = made.cookies()
    made.close()
    context = browser.new_context(base_url=bare.url, color_scheme=system, java_script_enabled=False)
    context.add_cookies(cookies)
    page = context.new_page()
    page.goto("/ledger?kind=rollout")
    grounds = {"light": "rgb(246, 248, 250)", "dark": "rgb(19, 26, 33)"}
    for said, drawn in (("auto", system), ("light", "light"), ("dark", "dark"), ("auto", system)):
        expect(page.get_by_role("button", name="Theme")).to_have_text(f"Theme: {said}")
        assert page.locator("body").evaluate("(body) => getComputedStyle(body).backgroundColor") == grounds[drawn]
        page.get_by_role("button", name="Theme").click()
        expect(page).to_have_url(f"{bare.url}/ledger?kind=rollout")
    context.close()


def test_a_theme_that_is_none_is_refused_and_no_other_site_sets_one(bare: Any) -> None:
    with httpx.Client(base_url=bare.url) as client:
        client.post("/login", data={"token": bare.token()})
        assert client.post("/theme", data={"theme": "dark"}).status_code == 403
        form = client.get("/gallery").text.split('name="form" value="')[1].split('"')[0]
        assert client.post("/theme", data={"theme": "pink", "form": form}).status_code == 400
        chosen = client.post("/theme", data={"theme": "dark", "form": form, "next": "//evil.example"})
        assert chosen.headers["location"] == "/" and "HttpOnly" in chosen.headers["set-cookie"]
        assert '<html lang="en" data-theme="dark"' in client.get("/gallery").text
