"""What-if questions over HTTP: nothing is kept, nothing changes."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import JSONResponse
from sqlmodel import Session

from controlplane.auth import Reader
from controlplane.auth.token_cache import AuthParts
from controlplane.contract.bodies.change import expected_s, hardest, needed_class
from controlplane.contract.bodies.nodes import NodeRole, NodeView
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import BadRequest, NotFound, Overloaded, Unavailable
from controlplane.contract.knobs import (
    KNOBS,
    MAX_NUM_BATCHED_TOKENS,
    MAX_NUM_SEQS,
    NUM_SPECULATIVE_TOKENS,
    PREFILL_CHUNK_SIZE,
    ChangeClass,
    parse_config,
)
from controlplane.contract.planning.whatif import ForecastUnderWay, TwinEngine, TwinTask, WhatIf, WhatIfCreate
from controlplane.fleet import store as fleet
from controlplane.fleet.declared_by_nodes import declared_for
from controlplane.telemetry import TelemetryReader
from controlplane.whatif.pool_telemetry import gathered
from controlplane.whatif.twin_desk import TwinDesk

router = APIRouter(prefix="/api/v1", tags=["studies"])
_VLLM_KNOWS = (MAX_NUM_BATCHED_TOKENS, PREFILL_CHUNK_SIZE, MAX_NUM_SEQS, NUM_SPECULATIVE_TOKENS)
"""Knobs that the twin can turn in vLLM's scheduler."""


@dataclass(frozen=True, kw_only=True)
class WhatIfParts(AuthParts):
    """What this route is served with. traffic: who is asked for a pool's traffic."""

    traffic: TelemetryReader
    twin: TwinDesk


WhatIfs = Annotated[WhatIfParts, Depends(WhatIfParts.given)]


@router.post(
    "/whatif",
    response_model=WhatIf,
    responses={**answers(NotFound, Overloaded, Unavailable), 202: {"model": ForecastUnderWay}},
)
def what_if(
    asked: WhatIfCreate,
    _: Reader,
    service: WhatIfs,
    wait_s: Annotated[
        float | None,
        Query(ge=0, le=60, description="seconds to wait for the answer, then 202; none: until it is there"),
    ] = None,
) -> WhatIf | Response:
    """Forecast what a change of load, prompts, replicas or knobs would do to a pool; a forecast, never proof."""

    def gather() -> TwinTask:
        # The twin computes for up to a minute: no transaction is open then, nor was one that others' writes wait for.
        with service.database.read_session() as session:
            return _task(asked, session, service)

    told = service.twin.forecast(asked, gather, wait_s)
    if isinstance(told, ForecastUnderWay):
        return JSONResponse(told.model_dump(mode="json"), 202)
    return told


def _task(asked: WhatIfCreate, session: Session, service: WhatIfParts) -> TwinTask:
    nodes = fleet.nodes(session, pool=asked.pool)
    if not nodes:
        raise NotFound(f"pool: no pool {asked.pool!r}", field="pool")
    engine = _engine(nodes, service.twin)
    number = fleet.pool_revision(session, asked.pool)
    if number is None:
        raise NotFound(
            f"pool {asked.pool}: it has no revision in production yet; one is adopted when a serving node has reported "
            "what it runs",
            field="pool",
        )
    config = fleet.revision(session, number).knobs
    wanted = {"knobs.": asked.knobs} | {f"others[{place}].": knobs for place, knobs in enumerate(asked.others)}
    for prefix, knobs in wanted.items():
        if engine == "vllm":
            _refuse_unknown(knobs, config.knobs(), declared_for(session, knobs, pool=asked.pool), prefix)
        parse_config(knobs, base=config, prefix=prefix)
    trial = [node.node for node in fleet.nodes(session, role=NodeRole.TRIAL)]
    task = gathered(service.traffic, asked, config, number, trial, engine)
    return task.model_copy(update=_change(nodes, config.knobs() | asked.knobs, asked))


def _change(nodes: Iterable[NodeView], wanted: Mapping[str, Any], asked: WhatIfCreate) -> dict[str, Any]:
    """What `wanted` takes on the hardest serving node, and the longest that a change of each class took on one: what a
    `TwinTask` is told of them. A model over more devices is started anew."""
    serving = [
        (node.backend, node.effective) for node in nodes if node.role is NodeRole.SERVING and node.effective is not None
    ]
    classes = [needed_class(backend, effective, wanted) for backend, effective in serving]
    if asked.model_parallel > 1:
        classes.append(ChangeClass.RESTART)
    costs: dict[ChangeClass, float] = {}
    for one in ChangeClass:
        told = [took_s for _, effective in serving if (took_s := expected_s(effective, one)) is not None]
        if told:
            costs[one] = max(told)
    return {"change_class": hardest(classes), "change_s": costs}


def _engine(nodes: Iterable[NodeView], twin: TwinDesk) -> TwinEngine:
    """Whose scheduler the whole pool runs. Raises `BadRequest` where the twin does not know it."""
    backends = Counter(node.backend for node in nodes)
    if backends.keys() == {"embedded"}:
        return "embedded"
    if backends.keys() != {"vllm"}:
        told = " and ".join(f"{backend} ({count})" for backend, count in sorted(backends.items()))
        raise BadRequest(
            f"pool: its nodes run {told}; the twin knows pools whose nodes all run the embedded engine, or all vLLM",
            field="pool",
        )
    if twin.vllm_python is None:
        raise BadRequest(
            "pool: it runs vLLM, whose own scheduler makes the forecast: start the service with vllm_python "
            "(--vllm-python), the Python of an environment with vLLM",
            field="pool",
        )
    return "vllm"


def _refuse_unknown(knobs: Mapping[str, Any], runs: Mapping[str, Any], declared: Collection[str], prefix: str) -> None:
    """Raises `BadRequest` for what the twin cannot turn in vLLM: another weight format, a knob that nodes declare. What
    is no knob at all is left to `parse_config`."""
    for name, value in knobs.items():
        changes = value != runs[name] if name in KNOBS else name in runs or name in declared
        if changes and name not in _VLLM_KNOWS:
            raise BadRequest(
                f"{prefix}{name}: the twin of vLLM knows {', '.join(_VLLM_KNOWS)} alone; what {name} does, a study on "
                "a trial node measures",
                field=f"{prefix}{name}",
            )
