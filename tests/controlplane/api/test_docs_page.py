"""/docs in a real browser that can reach nothing but the service: it renders, takes a token, and makes a call."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from playwright.sync_api import Page, Route, expect, sync_playwright

from controlplane.api.docs_page import FILES, PAGE
from tests.agents.served_app import ServedApp
from tests.web.conftest import FLAGS, chromium


@pytest.mark.slow
def test_the_page_names_no_other_host(http: TestClient) -> None:
    page = http.get(PAGE)
    assert page.status_code == 200
    assert "://" not in page.text.replace("http://www.w3.org", "")
    for file in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon.png"):
        assert f"{FILES}/{file}" in page.text
        assert http.get(f"{FILES}/{file}").status_code == 200


@pytest.mark.slow
def test_what_is_not_there_is_an_error_like_any_other(http: TestClient) -> None:
    assert http.get(f"{FILES}/../secrets").json()["error"]["code"] == "not_found"
    assert http.get("/redoc").status_code == 404


@pytest.fixture
def page(app: FastAPI) -> Iterator[tuple[Page, list[str]]]:
    """A page, and the addresses of other hosts that it asked for; none is reached."""
    foreign: list[str] = []
    with ServedApp(app) as served, sync_playwright() as playwright:

        def local_only(route: Route) -> None:
            if urlsplit(route.request.url).netloc == urlsplit(served.url).netloc or route.request.url.startswith(
                "data:"
            ):
                route.continue_()
            else:
                foreign.append(route.request.url)
                route.abort()

        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        opened = browser.new_context(base_url=served.url).new_page()
        opened.route("**/*", local_only)
        yield opened, foreign
        browser.close()


@pytest.mark.slow
@pytest.mark.browser
def test_a_call_goes_through_without_the_internet(page: tuple[Page, list[str]], app: FastAPI) -> None:
    opened, foreign = page
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.goto(PAGE)
    expect(opened.locator(".information-container .title").first).to_contain_text("Tailwright", timeout=30_000)
    opened.locator("button.authorize").first.click()
    token = (app.state.service.settings.data_dir / "admin-token").read_text().strip()
    opened.locator(".auth-container input").first.fill(token)
    opened.locator(".modal-ux button.authorize").click()
    opened.locator(".modal-ux button.btn-done").click()
    opened.locator("#tag-section-tokens, [id='operations-tag-tokens']").first.click()
    operation = opened.locator("#operations-tokens-whoami")
    operation.locator(".opblock-summary").click()
    expect(operation).to_contain_text("Needs a token of any scope")
    operation.locator("button.try-out__btn").click()
    operation.locator("button.execute").click()
    answer = operation.locator(".live-responses-table")
    expect(answer.locator("tbody td.response-col_status").first).to_contain_text("200", timeout=30_000)
    expect(answer).to_contain_text("admin")
    assert (foreign, errors) == ([], [])
