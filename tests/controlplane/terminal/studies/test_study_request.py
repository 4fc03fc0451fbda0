"""A study that is asked for on a command line is there once, also where the answer was lost on its way."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from controlplane.client import Client
from controlplane.contract.bodies.studies import StudyCreate
from controlplane.terminal.studies import study_request
from controlplane.terminal.studies.study_request import ask_for_study
from tests.controlplane.command.nouns.plane import Plane
from tests.peers import service

WANTED = StudyCreate(pool="chat", max_trials=3)


class Losing(httpx.HTTPTransport):
    """Loses the first answer, once the service has given it; or sends nothing at all."""

    def __init__(self, *, connects: bool = True) -> None:
        super().__init__()
        self.connects, self.keys = connects, list[str]()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.keys.append(request.headers["Idempotency-Key"])
        if not self.connects:
            raise httpx.ConnectError("nobody listens")
        answer = super().handle_request(request)
        if len(self.keys) == 1:
            answer.read()
            raise httpx.ReadError("the connection was reset")
        return answer


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    with service(tmp_path / "data") as running:
        made = Plane(running.url, running.token, running.http)
        made.enrol("gpu-1", "chat")
        yield made


@pytest.mark.parametrize("key", [None, "nightly"])
def test_a_lost_answer_is_asked_for_again(plane: Plane, key: str | None) -> None:
    transport = Losing()
    with Client(plane.url, plane.token, transport=transport) as client:
        made = ask_for_study(client, WANTED, key)
        assert [one["id"] for one in plane.get("studies")["items"]] == [made.id]
        first, again = transport.keys
        assert first == again == (key or first)
        ask_for_study(client, WANTED, key)
    assert len(plane.get("studies")["items"]) == (1 if key else 2), "each without a key is another"


def test_what_was_never_sent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(_: Callable[[], Any]) -> Any:
        raise AssertionError("it waits")

    monkeypatch.setattr(study_request, "persistently", never)
    transport = Losing(connects=False)
    with Client("http://127.0.0.1:9", "t", transport=transport) as client, pytest.raises(httpx.ConnectError):
        ask_for_study(client, WANTED)
    assert len(transport.keys) == 1
