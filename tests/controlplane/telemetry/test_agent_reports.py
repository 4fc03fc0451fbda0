"""An agent's spool and shipper against the service's own receiver: what was tallied is what is stored, once."""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from agents.agent.delivery.credentials import Credentials
from agents.agent.delivery.enrolment import Enrolment
from agents.agent.delivery.shipper import Outcome, Shipper
from agents.agent.delivery.spool import Slot, Spool
from agents.agent.reports.clock_offset import ClockReading
from agents.agent.reports.report import AgentCounts, NodeIdentity, body_of
from agents.agent.reports.report_table import ReportTable
from agents.agent.reports.tally import Tally
from agents.agent.settings import AgentSettings
from agents.backends.base import Position
from controlplane.alerts.conditions.fleet_wide.telemetry_lost import STEP_S, Loss, losses_of
from controlplane.contract.histogram import ZERO_THRESHOLD_S, axis_position
from controlplane.contract.reports.packed_report import MEDIA_TYPE
from controlplane.telemetry import Question, Span
from controlplane.telemetry.store import TelemetryStore

Seen = Counter[tuple[str, str, int]]
"""By prompt bucket, tenant and axis position; -1: the zero bucket."""


class Node:
    """One agent's sending half. `lose_answers`: so many of the next requests arrive, and their answers do not."""

    def __init__(self, app: FastAPI, token: str, folder: Path) -> None:
        self.spool = Spool(folder / "spool", 10**7)
        self.lose_answers = 0
        self.forms: list[str] = []
        self._inside = httpx.ASGITransport(app)
        self._table = ReportTable()
        self._token = token
        self._folder = folder
        self.restart()

    def restart(self) -> None:
        """As after kill -9: nothing is remembered but what is on disk."""
        self.spool = Spool(self._folder / "spool", 10**7)
        http = httpx.AsyncClient(base_url="http://service", transport=httpx.MockTransport(self._handle))
        enrolment = Enrolment(AgentSettings(node="n1", state_dir=self._folder), http)
        enrolment.current = Credentials("n1", "default", "serving", self._token, "00")
        self.shipper = Shipper(self.spool, http, enrolment)

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        self.forms.append("packed" if request.headers["Content-Type"] == MEDIA_TYPE else "otlp")
        answer = await self._inside.handle_async_request(request)
        content = await answer.aread()
        if self.lose_answers:
            self.lose_answers -= 1
            raise httpx.ReadError("the connection is gone")
        return httpx.Response(answer.status_code, headers=answer.headers, content=content)

    def report(self, *events: dict[str, Any], clock: ClockReading | None = None) -> None:
        tally = Tally(int(events[0]["time"] // 5), 5.0, "m")
        for seq, event in enumerate(events, 1):
            tally.count({"seq": seq, **event}, "boot")  # type: ignore[typeddict-item]

        def encode(slot: Slot) -> tuple[Any, None]:
            counts = AgentCounts(spool_dropped=slot.dropped, clock=clock)
            identity = NodeIdentity("n1", "chat")
            return body_of(tally, identity, slot.stream, slot.ordinal, counts, self._table), None

        self.spool.append(encode, Position("boot", len(events)))

    async def send_all(self) -> None:
        while self.spool.waiting():
            assert await self.shipper.send_one() in (Outcome.ACKNOWLEDGED, Outcome.AGAIN), self.shipper.last_error


def gaps(time: datetime, values: list[float], prompt: int, tenant: str) -> dict[str, Any]:
    head = {"kind": "gaps", "time": time.timestamp(), "revision": 3, "cached_tokens": 0, "prompt_tokens": prompt}
    return {**head, "gaps": values, **({"tenant": tenant} if tenant else {})}


def stored(store: TelemetryStore, start: datetime) -> Seen:
    found: Seen = Counter()
    until = start + timedelta(minutes=5)
    for series in store.histograms(
        Question("itl", Span(start, until), by=("prompt_bucket", "tenant"), where={"node": "n1"})
    ):
        place = series.labels["prompt_bucket"], series.labels.get("tenant", "")
        found[(*place, -1)] += series.total.zero_count
        for position in series.total.counts.nonzero()[0].tolist():
            found[(*place, position)] += int(series.total.counts[position])
    return +found


def expected(values: list[float], bucket: str, tenant: str) -> Seen:
    return Counter((bucket, tenant, -1 if one <= ZERO_THRESHOLD_S else axis_position(one)) for one in values)


@pytest.fixture
def node(app: FastAPI, node_token: Callable[[str], str], tmp_path: Path) -> Node:
    return Node(app, node_token("n1"), tmp_path / "agent")


def test_what_was_tallied_is_stored_exactly_once_in_whatever_form_and_however_often_it_came(
    node: Node, store: TelemetryStore, start: datetime
) -> None:
    chance = random.Random(5)
    wanted: Seen = Counter()

    async def run() -> None:
        for number in range(12):
            events = []
            for _ in range(3):
                at = start + timedelta(seconds=5 * number + chance.uniform(0, 4.9))
                prompt, bucket = chance.choice([(100, "<=128"), (600, "<=2k")])
                tenant = chance.choice(["", "a", "b"])
                values = [chance.choice([0.0, 2.0**-20, 1024.0, chance.lognormvariate(-3, 1)]) for _ in range(9)]
                events.append(gaps(at, values, prompt, tenant))
                wanted.update(expected(values, bucket, tenant))
            node.report(*events)
            node.lose_answers = chance.choice([0, 0, 1, 2])
            if chance.random() < 0.4:
                await node.shipper.send_one()
                node.restart()
            node.lose_answers = chance.choice([0, 1])
            await node.send_all()

    asyncio.run(run())
    assert stored(store, start) == wanted
    assert min(Counter(node.forms)[form] for form in ("packed", "otlp")) > 3
    assert len(node.forms) > 12  # Some were sent again,
    assert any(a != b for a, b in itertools.pairwise(node.forms))  # and some of those in the other form.
    assert node.spool.refused == 0


def test_the_clock_is_measured_told_and_stored(node: Node, store: TelemetryStore, start: datetime) -> None:
    async def run() -> None:
        for number in range(2):
            reading = node.shipper.clock.best(0.0)
            assert (reading is None) == (number == 0)
            node.report(gaps(start + timedelta(seconds=5 * number), [0.1], 100, ""), clock=reading)
            await node.send_all()

    asyncio.run(run())
    (offset,) = store.scalars(Question("clock_offset", Span(start, start + timedelta(minutes=5)), by=("node",)))
    (error,) = store.scalars(Question("clock_offset_error", Span(start, start + timedelta(minutes=5)), by=("node",)))
    assert offset.labels == error.labels == {"node": "n1"}
    # Whatever clock the service goes by: it is what the offset is measured to.
    assert error.value > 0 and abs(offset.value) < 100 * 365 * 86400


def test_what_the_spool_dropped_is_stored(app: FastAPI, node: Node, store: TelemetryStore, start: datetime) -> None:
    node.spool.note_lost(3)
    node.report(gaps(start, [0.1], 100, ""))
    asyncio.run(node.send_all())
    (series,) = store.scalars(Question("spool_dropped", Span(start, start + timedelta(minutes=5)), by=("node",)))
    assert (series.labels, series.value) == ({"node": "n1"}, 3.0)
    # And found by the alert that is there for it.
    step = int(start.timestamp()) // STEP_S * STEP_S
    assert losses_of(store, start + timedelta(minutes=10)) == {"n1": {step: Loss(reports=3)}}


def test_where_nothing_was_lost_nothing_is_found(node: Node, store: TelemetryStore, start: datetime) -> None:
    assert losses_of(store, start) == {}
    node.report(gaps(start, [0.1], 100, ""))
    asyncio.run(node.send_all())
    assert losses_of(store, start + timedelta(minutes=10)) == {}
