"""A forecast in Chromium: the page is there at once, says how long it takes, and has the answer when it comes."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from agents.demo.processes import Processes
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.whatif import WhatIfCreate
from tests.processes import wait_for
from tests.web.conftest import Bare, signed_in, started
from tests.web.whatif.held_twin import ANSWER, ASKED
from tests.web.whatif.test_whatif_page import ANSWER as FORECAST

pytestmark = pytest.mark.browser

PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
COMES = "The forecast is there."
POLLED = "**/parts/whatif/forecast?**"


class Held:
    """The twin's side: what it was asked, and what it answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ASKED).touch()
        os.mkfifo(folder / ANSWER)

    def asked(self) -> list[tuple[int, float]]:
        """Processes of the twin, and the load that each was asked about."""
        lines = (self.folder / ASKED).read_text().splitlines()
        return [(int(one), float(load)) for one, load in (line.split() for line in lines)]

    def wait_asked(self, load: float, count: int = 1) -> int:
        """The process that was asked about it last."""
        wait_for("the twin is asked", lambda: sum(of == load for _, of in self.asked()) == count)
        return self.asked()[-1][0]

    def answer(self, text: str) -> None:
        (self.folder / ANSWER).write_text(text)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Held:
    return Held(tmp_path_factory.mktemp("twin"))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, held: Held) -> Iterator[Bare]:
    folder = tmp_path_factory.mktemp("bare")
    program = ("-m", "tests.web.whatif.held_twin", str(held.folder))
    yield from started(Bare(folder, Processes(folder / "logs"), program))


def address(load: float, **more: str) -> str:
    return str(httpx.URL("/whatif", params={"ask": "1", "pool": "chat", "load": f"{load:g}", **more}))


def without_violations(page: Page) -> None:
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert [one["id"] for one in found] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]  # type: ignore[index]


@pytest.mark.parametrize(("load", "screen"), [(1.25, PHONE), (1.5, DESK)], ids=["phone", "desk"])
def test_the_page_is_there_at_once_and_the_forecast_when_it_comes(
    bare_page: Page, held: Held, load: float, screen: Any
) -> None:
    bare_page.set_viewport_size(screen)
    bare_page.goto(address(load))  # Its load event comes: nothing of the page waits for the twin.
    held.wait_asked(load)
    says = bare_page.locator("#forecast-says")
    expect(says).to_have_attribute("role", "status")
    expect(says).to_have_text("Forecasting.")
    so_far = bare_page.locator("[data-action=forecast]")
    expect(so_far).to_contain_text("s so far")
    without_violations(bare_page)
    # The form is there to be filled in by keyboard, and stays as it is when the answer comes.
    outputs = bare_page.get_by_label("Output tokens")
    outputs.press("End")
    outputs.press_sequentially(".5")
    bare_page.evaluate("document.getElementById('forecast-says').dataset.same = 'yes'")
    held.answer(FORECAST.model_dump_json())
    expect(bare_page.get_by_role("heading", name="Forecast, calibrated")).to_be_visible()
    expect(says).to_have_text(COMES)
    expect(says).to_have_attribute(
        "data-same", "yes"
    )  # A live region is read out only while it stays the same element.
    expect(outputs).to_be_focused()
    expect(outputs).to_have_value("1.5")
    expect(so_far).to_have_count(0)
    table = bare_page.get_by_role("region", name="Forecast by quantile")
    table.focus()
    expect(table).to_be_focused()
    without_violations(bare_page)
    assert [of for _, of in held.asked()].count(load) == 1


def test_it_is_asked_for_no_more_once_it_is_there(bare_page: Page, held: Held) -> None:
    polled: list[str] = []
    bare_page.on("request", lambda request: polled.append(request.url) if "/parts/whatif/" in request.url else None)
    bare_page.clock.install()
    bare_page.goto(address(1.75))
    held.wait_asked(1.75)
    held.answer(FORECAST.model_dump_json())
    for _ in range(600):
        bare_page.clock.run_for(1_000)
        if bare_page.get_by_role("heading", name="Forecast, calibrated").count():
            break
    else:
        pytest.fail("the forecast never came")
    before = len(polled)
    bare_page.clock.run_for(20_000)
    assert before and len(polled) == before


def test_how_long_it_usually_takes_is_told_once_that_is_known(bare_page: Page, held: Held) -> None:
    bare_page.goto(address(2.0))
    held.wait_asked(2.0)
    expect(bare_page.locator("[data-action=forecast]")).to_contain_text("usually about")
    held.answer(FORECAST.model_dump_json())
    expect(bare_page.locator("#forecast-says")).to_have_text(COMES)


def test_what_the_twin_refuses_is_told_and_at_its_field(bare_page: Page, held: Held) -> None:
    bare_page.goto(address(2.25, quantization="int8"))
    held.wait_asked(2.25)
    refused = BadRequest("knobs.quantization: the twin knows none alone", field="knobs.quantization")
    held.answer(httpx.Response(400, json=refused.body()).text)
    expect(bare_page.get_by_role("alert")).to_contain_text("the twin knows none alone")
    expect(bare_page.locator("#about-quantization")).to_contain_text("the twin knows none alone")
    bare_page.get_by_role("link", name="To its field").press("Enter")
    expect(bare_page.locator("#field-quantization")).to_be_focused()
    expect(bare_page.locator("[data-action=forecast]")).to_have_count(0)


def test_a_service_that_does_not_answer_is_asked_again(bare_page: Page, held: Held) -> None:
    polled: list[str] = []

    def failing(route: Any) -> None:
        polled.append(route.request.url)
        if len(polled) == 1:
            route.fulfill(status=503, body="{}")
        elif len(polled) == 2:
            route.abort()
        else:
            route.continue_()

    bare_page.route(POLLED, failing)
    bare_page.goto(address(2.5))
    expect(bare_page.locator("[data-action=forecast]")).to_contain_text("s so far")
    held.wait_asked(2.5)
    held.answer(FORECAST.model_dump_json())
    expect(bare_page.locator("#forecast-says")).to_have_text(COMES)
    assert len(polled) >= 3
    bare_page.unroute(POLLED)


def test_who_goes_away_ends_it_and_the_next_question_has_its_turn(bare_page: Page, held: Held) -> None:
    bare_page.goto(address(3.0))
    left = held.wait_asked(3.0)
    bare_page.goto(address(3.5))
    expect(bare_page.locator("[data-action=forecast]")).to_contain_text("nother forecast is being made")
    held.wait_asked(3.5)
    with pytest.raises(ProcessLookupError):
        os.kill(left, 0)
    held.answer(FORECAST.model_dump_json())
    expect(bare_page.locator("#forecast-says")).to_have_text(COMES)


def test_opened_twice_it_is_made_once(bare_context: BrowserContext, held: Held) -> None:
    pages = [bare_context.new_page() for _ in range(2)]
    for page in pages:
        page.goto(address(4.0))
    held.wait_asked(4.0)
    for page in pages:
        expect(page.locator("[data-action=forecast]")).to_contain_text("s so far")
    held.answer(FORECAST.model_dump_json())
    for page in pages:
        expect(page.locator("#forecast-says")).to_have_text(COMES)
        page.close()
    assert [of for _, of in held.asked()].count(4.0) == 1


def test_without_scripts_it_is_waited_for(browser: Any, bare: Bare, held: Held) -> None:
    context = signed_in(browser, bare.url, bare.token(), java_script_enabled=False)
    (page,) = [context.new_page()]
    page.goto(address(4.5))
    expect(page.locator("#forecast-says")).to_be_hidden()
    page.get_by_role("link", name="Wait for it").click(no_wait_after=True)
    held.wait_asked(4.5)
    held.answer(FORECAST.model_dump_json())
    expect(page.get_by_role("heading", name="Forecast, calibrated")).to_be_visible()
    page.get_by_label("Load").fill("5")
    assert "wait=1" in page.url
    assert page.locator("form.settings-form input[name=wait]").get_attribute("value") == "1"
    context.close()


def test_what_is_asked_is_as_the_address_says(bare_page: Page, bare: Bare, held: Held) -> None:
    """The same by the API while the page waits: one computation, one answer."""
    bare_page.goto(address(5.0))
    held.wait_asked(5.0)
    with bare.client() as client:
        told = client.what_if_so_far(WhatIfCreate(pool="chat", load=5.0))
        assert not isinstance(told, type(FORECAST)) and told.elapsed_s > 0
        held.answer(FORECAST.model_dump_json())
        assert client.what_if(WhatIfCreate(pool="chat", load=5.0)) == FORECAST
    expect(bare_page.locator("#forecast-says")).to_have_text(COMES)
