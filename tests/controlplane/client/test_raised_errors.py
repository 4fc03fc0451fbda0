"""Whatever stands in an error answer becomes one of the contract's errors."""

from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from controlplane.client.raised_errors import raise_for_error
from controlplane.contract import errors
from controlplane.contract.clock import utc_now

ASKED = httpx.Request("GET", "http://service/api/v1/nodes")


def raised(status: int, **answer: Any) -> errors.TailwrightError:
    with pytest.raises(errors.TailwrightError) as caught:
        raise_for_error(httpx.Response(status, request=ASKED, **answer))
    return caught.value


def test_a_date_says_when_to_come_back() -> None:
    when = format_datetime(utc_now() + timedelta(seconds=1000), usegmt=True)
    error = raised(429, headers={"Retry-After": when}, text="<html>slow down</html>")
    assert isinstance(error, errors.Overloaded)
    assert 0 < error.retry_after_s <= 1000


@pytest.mark.parametrize(
    ("header", "wait_s"), [({"Retry-After": "40"}, 40.0), ({"Retry-After": "soon"}, 1.0), ({}, 1.0)]
)
def test_seconds_or_nothing_that_helps(header: dict[str, str], wait_s: float) -> None:
    error = raised(429, headers=header, json=errors.Overloaded("full", retry_after_s=3, field="body").body())
    assert isinstance(error, errors.Overloaded)
    assert (error.message, error.retry_after_s) == ("full", wait_s)
    assert error.detail == {"field": "body", "retry_after_s": wait_s}


def test_the_code_says_which_error_it_is() -> None:
    error = raised(400, json=errors.UnknownKnob("no such knob", field="knobs.x").body())
    assert type(error) is errors.UnknownKnob
    assert error.detail == {"field": "knobs.x"}


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "null",
        '{"error": []}',
        '{"error": {"code": [], "message": "x"}}',
        '{"error": {"code": "x"}}',
        "\udcff",
    ],
)
def test_answers_that_nobody_here_has_written(body: str) -> None:
    error = raised(404, content=body.encode(errors="surrogateescape"))
    assert type(error) is errors.NotFound
    assert error.message.startswith("404 from http://service/api/v1/nodes")


def test_a_detail_may_have_any_names() -> None:
    body = {"error": {"code": "conflict", "message": "busy", "detail": {"message": "own", "self": 1}}}
    assert raised(409, json=body).detail == {"message": "own", "self": 1}
