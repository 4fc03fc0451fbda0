"""Advice over HTTP: read from telemetry, nothing is kept, nothing changes."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from sqlmodel import Session

from controlplane.advice.capacity_worksheet import worksheet
from controlplane.advice.mix_advice import MeasuredTraffic
from controlplane.advice.pool_advice import advice_of
from controlplane.advice.pool_known import known_of
from controlplane.advice.pool_reading import PoolFiguresReader
from controlplane.auth import Reader
from controlplane.auth.token_cache import AuthParts
from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import BadRequest, NotFound, Overloaded, TooLarge
from controlplane.contract.planning.advice import Advice
from controlplane.contract.planning.hardware_forecast import HardwareCreate, HardwareForecast
from controlplane.db import SessionDep
from controlplane.fleet import store as fleet
from controlplane.hardware.hardware_rows import Known, forecast
from controlplane.telemetry import Span
from controlplane.telemetry.http.telemetry_parts import Telemetry
from controlplane.telemetry.queries.parameters import PoolName, SpanOf

router = APIRouter(prefix="/api/v1", tags=["studies"])


@dataclass(frozen=True, kw_only=True)
class AdviceParts(AuthParts):
    """What this route is served with. measured_on: by pool the traffic of its last promoted study."""

    measured_on: Callable[[Session, str], MeasuredTraffic | None]


Advices = Annotated[AdviceParts, Depends(AdviceParts.given)]


@router.get("/advice", responses=answers(NotFound, TooLarge, Overloaded))
def advice(
    principal: Reader,
    session: SessionDep,
    service: Telemetry,
    advised: Advices,
    span: SpanOf,
    pool: PoolName = None,
    peak: Annotated[
        float, Query(ge=1, le=100, allow_inf_nan=False, description="so many times the busiest step, for `at_peak`")
    ] = 2.0,
) -> Advice:
    """What binds a pool, what it carries, and which techniques could touch its latency, by its own figures.

    No effect is promised: each technique has the trial that would prove it. A week at most; the newest data ends it.
    """
    if not pool:
        raise BadRequest("pool: is missing; say which pool to advise on", field="pool")
    serving = _serving(session, pool)
    number = fleet.pool_revision(session, pool)
    config = None if number is None else fleet.revision(session, number).knobs
    with service.desk.query(principal.holder) as budget:
        figures = PoolFiguresReader(service.telemetry, pool, budget).read(span, config, serving)
        return advice_of(figures, peak, advised.measured_on(session, pool))


@router.post("/hardware", responses=answers(NotFound, TooLarge, Overloaded))
def hardware(asked: HardwareCreate, principal: Reader, service: Telemetry) -> HardwareForecast:
    """Forecast what a model would take on accelerators that are not there, by its sizes and theirs; never proof.

    What is not said is taken from the pool: its model as its nodes tell it, a mean request, its busiest minute's rate.
    """
    if asked.pool is None:
        return forecast(asked, Known())
    with service.database.read_session() as session:  # It only asks: others' writes do not wait for the answer.
        serving = _serving(session, asked.pool)
    end = service.telemetry.latest() or service.clock()
    span = Span(end - timedelta(seconds=asked.window_s), end)
    with service.desk.query(principal.holder) as budget:
        figures = PoolFiguresReader(service.telemetry, asked.pool, budget).read(span, None, serving)
    return forecast(asked, known_of(serving, worksheet(figures, 1.0)))


def _serving(session: Session, pool: str) -> list[NodeView]:
    serving = fleet.nodes(session, pool=pool, role=NodeRole.SERVING)
    if not serving:
        raise NotFound(f"pool: no pool {pool[:80]!r} has serving nodes", field="pool")
    return serving
