"""What-if questions over HTTP: nothing is kept, nothing changes."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends

from controlplane.auth import Reader
from controlplane.auth.token_cache import AuthParts
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import BadRequest, NotFound, Overloaded, Unavailable
from controlplane.contract.knobs import parse_config
from controlplane.contract.planning.whatif import WhatIf, WhatIfCreate
from controlplane.db import SessionDep
from controlplane.fleet import store as fleet
from controlplane.telemetry import TelemetryReader
from controlplane.whatif.pool_telemetry import gathered
from controlplane.whatif.twin_desk import TwinDesk

router = APIRouter(prefix="/api/v1", tags=["studies"])
_EMBEDDED = "embedded"


@dataclass(frozen=True, kw_only=True)
class WhatIfParts(AuthParts):
    """What this route is served with. traffic: who is asked for a pool's traffic."""

    traffic: TelemetryReader
    twin: TwinDesk


WhatIfs = Annotated[WhatIfParts, Depends(WhatIfParts.given)]


@router.post("/whatif", responses=answers(NotFound, Overloaded, Unavailable))
def what_if(asked: WhatIfCreate, session: SessionDep, _: Reader, service: WhatIfs) -> WhatIf:
    """Forecast what a change of load, prompts, replicas or knobs would do to a pool; a forecast, never proof."""
    nodes = fleet.nodes(session, pool=asked.pool)
    if not nodes:
        raise NotFound(f"pool: no pool {asked.pool!r}", field="pool")
    others = {node.backend for node in nodes} - {_EMBEDDED}
    if others:
        raise BadRequest(
            f"pool: the twin knows the embedded engine's scheduler, not that of {', '.join(sorted(others))}",
            field="pool",
        )
    number = fleet.pool_revision(session, asked.pool)
    if number is None:
        raise NotFound(
            f"pool {asked.pool}: it has no revision in production yet; one is adopted when a serving node has reported "
            "what it runs",
            field="pool",
        )
    config = fleet.revision(session, number).knobs
    parse_config(asked.knobs, base=config, prefix="knobs.")
    for place, knobs in enumerate(asked.others):
        parse_config(knobs, base=config, prefix=f"others[{place}].")
    trial = [node.node for node in fleet.nodes(session, role=NodeRole.TRIAL)]
    return service.twin.forecast(gathered(service.traffic, asked, config, number, trial))
