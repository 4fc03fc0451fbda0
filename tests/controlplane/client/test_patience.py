"""What waits for somebody else's receiver is waited for longer than that one has."""

import httpx
import pytest

from controlplane.alerts.notify.one_attempt import DEADLINE_S
from controlplane.client import Client
from controlplane.contract.errors import TailwrightError
from controlplane.contract.planning.whatif import ForecastUnderWay
from controlplane.whatif.twin_desk import VLLM_TIMEOUT_S
from tests.web.whatif.test_whatif_page import ANSWER as FORECAST


def test_a_receiver_that_hangs_is_not_the_services_fault() -> None:
    waited: list[float] = []

    def answer(request: httpx.Request) -> httpx.Response:
        waited.append(request.extensions["timeout"]["read"])
        return httpx.Response(500)

    with Client("http://service", "t", transport=httpx.MockTransport(answer)) as client, pytest.raises(TailwrightError):
        client.test_destination(1)
    assert waited[0] > DEADLINE_S


def test_a_forecast_is_asked_for_until_it_is_there() -> None:
    """The same question each time, for which a service that knows no `wait_s` has the time that it takes."""
    asked: list[tuple[str, bytes, float]] = []
    under_way = ForecastUnderWay(elapsed_s=20.0, limit_s=VLLM_TIMEOUT_S)

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.url.params["wait_s"], request.content, request.extensions["timeout"]["read"]))
        if len(asked) < 3:
            return httpx.Response(202, text=under_way.model_dump_json())
        return httpx.Response(200, text=FORECAST.model_dump_json())

    with Client("http://service", "t", transport=httpx.MockTransport(answer)) as client:
        assert client.what_if(FORECAST.asked) == FORECAST
        assert len(asked) == 3 and len({(wait, body) for wait, body, _ in asked}) == 1
        assert asked[0][2] > VLLM_TIMEOUT_S
        asked.clear()
        assert client.what_if_so_far(FORECAST.asked) == under_way
        assert [float(wait) for wait, _, _ in asked] == [0.0]
