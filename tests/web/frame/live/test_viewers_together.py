"""Many viewers of Now over the real API: whatever their number, a round costs the drawings and the questions of one."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings
from controlplane.contract.bodies.access import Scope
from controlplane.db.database import Database
from controlplane.fleet import store as fleet
from controlplane.incidents.upkeep import IncidentKeeper
from controlplane.serving.joint_lookup import JointLookup
from tests.controlplane.incidents.conftest import START, alert_of, writer_of
from tests.web.browser_request import request_of
from web.access.shared_answers import SharedAnswers, SharingTransport
from web.access.viewer import Viewer
from web.frame import look
from web.frame.live import Opened, Together, stream_of
from web.frame.page import Page, Part
from web.frame.selection import selection_of
from web.frame.shared_looks import SharedLooks
from web.pages.now_page import PAGE

NOW = datetime(2026, 3, 1, 12, 5, tzinfo=UTC)
VIEWERS = 50


@pytest.fixture
def app(tmp_path: Path) -> Iterator[FastAPI]:
    """Nodes of two pools, and an incident that is open."""
    made = create_app(ServiceSettings(data_dir=tmp_path, log_level="error"))
    service = made.state.service
    database: Database = service.database
    with database.session() as session:
        for number in range(6):
            place = {"pool": f"pool-{number % 2}", "role": "serving", "backend": "embedded"}
            fleet.place(session, f"node-{number}", **place, now=NOW)
    writer_of(database)(alert_of(1))
    IncidentKeeper(database).tick(START)
    service.telemetry.start()
    yield made
    service.telemetry.close()
    database.close()


class Asked(httpx.BaseTransport):
    """Hands on to the API, and counts what it is asked."""

    def __init__(self, app: FastAPI) -> None:
        self._inner = TestClient(app)
        self.urls: Counter[str] = Counter()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self.urls[request.url.raw_path.decode()] += 1
        answer = self._inner.request(request.method, str(request.url), headers=request.headers)
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


def stays(request: Request) -> Request:
    async def gone() -> bool:
        return False

    request.is_disconnected = gone  # type: ignore[method-assign]
    return request


def a_round(app: FastAPI, viewers: int, page: Page = PAGE) -> Counter[str]:
    """What the API is asked until so many viewers of one scope, who came at once, have each part of the page."""
    token = (app.state.service.settings.data_dir / "admin-token").read_text().strip()
    asked, answers = Asked(app), SharedAnswers(lambda: 0.0)
    sessions = JointLookup[Scope | None](lambda secrets: dict.fromkeys(secrets, Scope.READ))

    async def watch(who: str, together: Together) -> None:
        viewer = Viewer("http://testserver", token, SharingTransport(asked, answers, Scope.READ))
        opened = Opened(page, viewer, lambda: selection_of({}, NOW))
        missing = {f"#part-{part.name}" for part in page.parts}
        async for message in stream_of(stays(request_of(who)), opened, together):
            missing -= {place for place in missing if f'"{place}"' in message.decode()}
            if not missing:
                return

    async def all_of() -> None:
        together = Together(sessions, SharedLooks(lambda: 0.0))
        await asyncio.wait_for(asyncio.gather(*(watch(f"viewer-{n}", together) for n in range(viewers))), 60)

    asyncio.run(all_of())
    return asked.urls


def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The parts that are drawn from now on."""
    drawn: Counter[str] = Counter()
    draw: Callable[..., Any] = look.part_drawn

    def counting(request: Request, part: Part, *more: Any) -> Any:
        drawn[part.name] += 1
        return draw(request, part, *more)

    monkeypatch.setattr(look, "part_drawn", counting)
    return drawn


@pytest.mark.slow
def test_fifty_viewers_cost_the_drawings_and_the_questions_of_one(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = a_round(app, 1)
    assert "/api/v1/incidents/1" in alone  # There is something to ask for that none but an open incident has.
    drawn = counted(monkeypatch)
    together = a_round(app, VIEWERS)
    assert drawn == {part.name: 1 for part in PAGE.parts}
    assert together == alone and set(together.values()) == {1}


def test_a_part_that_asks_for_what_is_a_sessions_own_is_drawn_for_each(
    app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the count above can be another."""
    part = Part("recent", lambda client, _: {"entries": client.sessions()[:0]})
    drawn = counted(monkeypatch)
    asked = a_round(app, 5, Page("now", "/", "Now", (part,)))
    assert drawn == {"recent": 5} and set(asked.values()) == {5}
