"""One item that cannot be read costs that item alone."""

import json
import logging
from typing import Any

import httpx
import pytest
from pydantic import ValidationError

from controlplane.client import Client
from controlplane.client.connection import segment
from controlplane.contract.errors import NotFound

GOOD = {"node": "gpu-1", "pool": "p", "role": "serving", "backend": "vllm", "connected": True, "healthy": True}


def client_of(*pages: Any) -> Client:
    answers = iter(pages)
    return Client("http://there", transport=httpx.MockTransport(lambda _: httpx.Response(200, text=next(answers))))


def test_a_bad_item_is_named_and_the_others_are_read(caplog: pytest.LogCaptureFixture) -> None:
    bad = {**GOOD, "node": "gpu-2", "effective": {"revision": 1, "knobs": {}, "costs": {"live": None}}}
    pages = [
        json.dumps({"items": [GOOD, bad], "next": "2"}),
        json.dumps({"items": [{**GOOD, "node": "gpu-3"}], "next": None}),
    ]
    with caplog.at_level(logging.WARNING), client_of(*pages, *pages) as client:
        for _ in range(2):
            assert [node.node for node in client.nodes()] == ["gpu-1", "gpu-3"]
        assert client.left_out.count == 2
        assert len(client.left_out.messages) == 1
    assert len(caplog.records) == 1
    assert "/api/v1/nodes: node 'gpu-2'" in caplog.text and "effective.costs.live" in caplog.text


@pytest.mark.parametrize("content", ["{", "[]", '{"items": 3}', '{"items": [], "next": 3}', "[" * 100_000])
def test_what_is_no_page_is_an_error(content: str) -> None:
    with client_of(content) as client, pytest.raises(ValidationError):
        client.nodes()


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("gpu-1", b"/api/v1/nodes/gpu-1"),
        ("\r\nX", b"/api/v1/nodes/%0D%0AX"),
        ("a/b?c#d", b"/api/v1/nodes/a%2Fb%3Fc%23d"),
        ("..", b"/api/v1/nodes/%2E%2E"),
        ("é", b"/api/v1/nodes/%C3%A9"),
    ],
)
def test_any_name_is_one_part_of_a_path(name: str, path: bytes) -> None:
    asked: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.raw_path)
        return httpx.Response(200, json={**GOOD, "node": name})

    with Client("http://there", transport=httpx.MockTransport(answer)) as client:
        assert client.node(name).node == name
    assert asked == [path]


def test_an_empty_name_is_no_part_of_a_path() -> None:
    with pytest.raises(NotFound):
        segment("")
