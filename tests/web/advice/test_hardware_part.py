"""Other hardware on the page of advice: what the API forecasts, with what is known of it, or why there is none."""

from dataclasses import replace
from html import unescape

import pytest

from controlplane.api.body_examples import EXAMPLES
from controlplane.contract.errors import BadRequest
from controlplane.contract.planning.hardware_forecast import ACCELERATOR_NAMES, HardwareCreate, HardwareForecast
from controlplane.hardware.accelerators import ACCELERATORS
from controlplane.hardware.hardware_rows import Known, forecast
from tests.web.part_html import part_html
from web.advice import advice_page
from web.advice.hardware_part import least

MODEL = EXAMPLES["HardwareCreate"]["a model by its sizes, with so many always under way"].model_dump()["model"]
KNOWN = Known(HardwareCreate(model=MODEL).model, "gpu-1", "fp8", 1024, 512, 0.25, 20.0)


class Api:
    """Forecasts for a pool of which so much is known."""

    def __init__(self, known: Known = KNOWN) -> None:
        self.asked: list[HardwareCreate] = []
        self._known = known

    def hardware(self, asked: HardwareCreate) -> HardwareForecast:
        self.asked.append(asked)
        return forecast(asked, self._known)


def drawn(api: Api, **params: str) -> str:
    return unescape(part_html(advice_page.PAGE, "hardware", api, **params))


def test_the_names_that_are_offered_are_those_with_figures() -> None:
    assert tuple(ACCELERATORS) == ACCELERATOR_NAMES


def test_each_accelerator_is_a_row_with_what_is_known_of_it() -> None:
    api = Api()
    html = drawn(api, pool="a pool", **{"from": "now-6h"})
    assert api.asked[0].window_s == 6 * 3600 and api.asked[0].accelerators == []
    assert html.count("data-accelerator=") == len(ACCELERATOR_NAMES)
    assert 'data-accelerator="h200" data-class="calibrated"' in html and "seen; nine of ten within 12 %" in html
    assert 'data-accelerator="b200" data-class="extrapolated"' in html
    assert "elsewhere, extrapolated; nine of ten within 40 %" in html
    assert "the model of gpu-1 (fp8 weights)" in html and "20 requests a second" in html
    assert "tailwright hardware --pool 'a pool'" in html


def test_a_model_of_another_size_has_a_first_token_without_an_upper_end() -> None:
    assert KNOWN.model is not None
    small = replace(KNOWN, model=KNOWN.model.model_copy(update={"layers": 4}))
    html = drawn(Api(small), pool="chat", accelerator="h200")
    assert 'data-accelerator="h200" data-class="extrapolated"' in html and " or more</span>" in html
    assert "another size, extrapolated; nine of ten within 42 %" in html and "Its layers have " in html
    assert " or more</span>" not in drawn(Api(), pool="chat", accelerator="h200")


def test_one_that_is_chosen_has_all_its_widths() -> None:
    html = drawn(Api(), pool="chat", accelerator="h200")
    assert html.count('data-accelerator="h200"') == html.count("data-accelerator=") == 4
    (row,) = least([row for row in forecast(HardwareCreate(accelerators=["h200"]), KNOWN).items])
    assert row.device_s_per_1000 == min(
        one.device_s_per_1000
        for one in forecast(HardwareCreate(accelerators=["h200"]), KNOWN).items
        if one.device_s_per_1000 is not None
    )


def test_a_model_that_no_node_tells_is_asked_for_with_a_command() -> None:
    html = drawn(Api(Known()), pool="a pool")
    assert "Not forecast: model: no node of the pool tells its model's sizes" in html
    assert "tailwright hardware --model DIR --pool 'a pool'" in html and "data-accelerator" not in html
    silent = drawn(Api(Known(model=KNOWN.model)), pool="chat")
    assert "prompt: give it, or a pool that served enough" in silent and "--model" not in silent


def test_without_a_pool_nothing_is_asked() -> None:
    api = Api()
    assert not drawn(api).strip() and not api.asked


def test_an_accelerator_that_is_not_offered_is_refused() -> None:
    with pytest.raises(BadRequest, match="accelerator: wants one of a100"):
        drawn(Api(), pool="chat", accelerator="h10")
