"""The page of advice: what the API says, its links, and what is refused."""

import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect

from controlplane.advice.pool_advice import advice_of
from controlplane.advice.pool_figures import FEWEST_REQUESTS
from controlplane.contract.errors import BadRequest
from controlplane.contract.metrics import WINDOW_S
from controlplane.contract.planning.advice import Advice, AdviceState
from controlplane.contract.planning.hardware_forecast import ACCELERATOR_NAMES
from tests.controlplane.advice.advised_pool import BUSY, figures, measured_then
from tests.processes import wait_for
from tests.web.conftest import checked, signed_in
from tests.web.part_html import part_html
from web.advice import advice_page


class Api:
    """What the page asks of the API."""

    def __init__(self, answer: Advice | None = None) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._answer = answer or advice_of(BUSY, 2)

    def advice(self, pool: str, **asked: Any) -> Advice:
        self.asked.append((pool, asked))
        return self._answer


def drawn(api: Api, **params: str) -> str:
    return unescape(part_html(advice_page.PAGE, "advice", api, **params))


def test_it_is_asked_for_the_bar_s_pool_and_time() -> None:
    api = Api()
    drawn(api, pool="chat", peak="3", **{"from": "now-1h"})
    assert api.asked == [("chat", {"peak": 3.0, "window": "3600s"})]


def test_without_a_pool_nothing_is_asked() -> None:
    api = Api()
    assert "No pool serves yet" in drawn(api) and not api.asked


@pytest.mark.parametrize("peak", ["0", "4", "much"])
def test_a_peak_that_is_not_offered_is_refused(peak: str) -> None:
    with pytest.raises(BadRequest, match="peak: wants one of"):
        drawn(Api(), pool="chat", peak=peak)


def test_compute_against_bandwidth_is_told_in_words() -> None:
    told = advice_of(BUSY, 2)
    assert told.binds.roofline is not None
    assert told.binds.roofline.says in drawn(Api(told), pool="chat")
    assert "data-binds" not in drawn(Api(advice_of(figures(flops=None), 2)), pool="chat")


def test_each_technique_has_its_bound_and_its_proof() -> None:
    html = drawn(Api(), pool="chat")
    answer = advice_of(BUSY, 2)
    for one in answer.techniques:
        assert one.title in html and one.says in html
        assert not one.study or f'href="{one.study}"' in html
        assert not one.forecast or f'href="{one.forecast}"' in html
    assert html.index("Another replica") < html.index("Speculative decoding") < html.index("More KV memory")
    assert "at most 77.5 %" in html and "40.0 % of the steps were bound" in html
    assert 'data-limit="max_num_seqs"' in html and "Not known" not in html


def test_what_nobody_tells_is_a_dash_with_what_would_bring_it() -> None:
    html = drawn(Api(advice_of(figures(limits={}, output_tokens=None, steps=[]), 2)), pool="chat")
    assert "--scheduler-cls" in html and "No whole step with a request was measured" in html and "–" in html


@pytest.mark.slow
def test_drifted_traffic_leads_to_the_study_to_ask_for() -> None:
    assert "data-mix" not in drawn(Api(), pool="chat"), "never tuned"
    now = replace(measured_then().mix, prompts=[3 * tokens for tokens in measured_then().mix.prompts])
    told = advice_of(figures(mix=now), 2, measured_then())
    assert told.mix is not None
    html = drawn(Api(told), pool="chat")
    assert 'data-mix="drifted"' in html and told.mix.says in html
    assert f'href="{told.mix.study}"' in html and 'href="/studies/7"' in html
    alike = drawn(Api(advice_of(figures(mix=measured_then().mix), 2, measured_then())), pool="chat")
    assert 'data-mix="alike"' in alike and "Tune it again" not in alike


def test_a_pool_that_is_idle_is_told_so_and_nothing_else() -> None:
    html = drawn(Api(advice_of(figures(requests=0), 2)), pool="chat")
    assert "Nothing binds" in html and "data-technique" not in html


@pytest.fixture
def operator(browser: Browser, stack: Any) -> Iterator[Page]:
    """Who may start studies."""
    context = signed_in(browser, stack.url, stack.fleet.token("admin-token"))
    yield from checked(context)
    context.close()


def busy_span(stack: Any) -> dict[str, str]:
    """Sends enough requests to be advised by, and gives the windows that they took: a stack that stood idle before
    would rightly be told that nothing binds it."""
    start = datetime.fromtimestamp(time.time() // WINDOW_S * WINDOW_S, UTC)
    for number in range(FEWEST_REQUESTS + 2):
        assert stack.complete(f"def advised_{number}(left, right):\n    return", 8).status_code == 200
    end = datetime.fromtimestamp(time.time() // WINDOW_S * WINDOW_S + WINDOW_S, UTC)
    with stack.client() as client:
        wait_for(
            "the requests can be advised by",
            lambda: client.advice("demo", start=start, end=end).state is AdviceState.ADVISED,
        )
    return {"from": f"{start:%Y-%m-%dT%H:%M:%SZ}", "to": f"{end:%Y-%m-%dT%H:%M:%SZ}"}


@pytest.mark.browser
def test_from_the_page_to_the_filled_in_form(operator: Page, stack: Any) -> None:
    """Of a real pool under real requests: what it says, another peak by its link, and a form that is in order."""
    busy = busy_span(stack)
    operator.goto(f"/studies?pool=demo&{urlencode(busy)}")
    operator.get_by_role("link", name="Advice").click()
    expect(operator.locator("h1")).to_have_text("Advice")
    techniques = operator.locator("[data-technique]")
    expect(techniques).to_have_count(7)
    expect(operator.locator("#part-advice")).to_contain_text("What binds")
    expect(operator.locator("[data-accelerator]")).to_have_count(len(ACCELERATOR_NAMES))
    operator.get_by_role("link", name="h200", exact=True).click()
    expect(operator.locator("[data-accelerator=b200]")).to_have_count(0)
    expect(operator.locator("[data-accelerator=h200]").first).to_be_visible()
    operator.get_by_role("link", name="5 x").click()
    expect(operator.get_by_role("heading", name="At 5 times the busiest step")).to_be_visible()
    operator.locator("[data-technique=speculation]").get_by_role("link", name="Prove it by a study").click()
    expect(operator.locator("h1")).to_have_text("A new study")
    expect(operator.get_by_label("num_speculative_tokens")).to_have_value("0 to 8")
    expect(operator.locator("main")).to_contain_text("It can be started")
