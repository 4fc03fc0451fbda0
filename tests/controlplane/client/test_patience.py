"""What waits for somebody else's receiver is waited for longer than that one has."""

import httpx
import pytest

from controlplane.alerts.notify.one_attempt import DEADLINE_S
from controlplane.client import Client
from controlplane.contract.errors import TailwrightError


def test_a_receiver_that_hangs_is_not_the_services_fault() -> None:
    waited: list[float] = []

    def answer(request: httpx.Request) -> httpx.Response:
        waited.append(request.extensions["timeout"]["read"])
        return httpx.Response(500)

    with Client("http://service", "t", transport=httpx.MockTransport(answer)) as client, pytest.raises(TailwrightError):
        client.test_destination(1)
    assert waited[0] > DEADLINE_S
