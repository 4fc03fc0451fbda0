"""The blast radius over HTTP, of a rollout that is wanted or there. Reads registry and telemetry, writes nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated

from fastapi import APIRouter, Depends
from sqlmodel import Session

from controlplane.auth import Reader
from controlplane.auth.token_cache import AuthParts
from controlplane.contract.bodies.nodes import NodeRole
from controlplane.contract.bodies.rollouts import RolloutCreate
from controlplane.contract.changes.blast_radius import BlastRadius
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import Conflict, NotFound
from controlplane.contract.metrics import NODE, POOL, REQUESTS, ROLE, TENANT
from controlplane.db import SessionDep
from controlplane.db.ids import PathId
from controlplane.fleet import store as fleet
from controlplane.fleet.whole_fleet import fleet_columns
from controlplane.rollouts import store
from controlplane.rollouts.checks import check_judged_by
from controlplane.rollouts.policies import store as policies
from controlplane.rollouts.reach.radius import Traffic, blast_radius, refuse_beyond
from controlplane.telemetry import Question, Span, TelemetryReader

router = APIRouter(prefix="/api/v1", tags=["rollouts"])

WHILE_S = 600.0
"""Of traffic that is looked at: what is served now, not what a night was like."""


@dataclass(frozen=True)
class ReachDesk:
    """Who knows what a rollout would reach."""

    telemetry: TelemetryReader

    def radius(self, session: Session, spec: RolloutCreate, now: datetime) -> BlastRadius:
        """As the fleet and its traffic are now. Raises `NotFound` for a revision, `Conflict` for a pool of nobody."""
        revision = fleet.revision(session, spec.revision)
        nodes = policies.tellable(session, spec.pool)
        if not nodes:
            raise Conflict(f"pool: {spec.pool!r} has no serving nodes that may be told", field="pool")
        serving = fleet_columns(session)
        names = {node for node, role in zip(serving.node, serving.role, strict=True) if role is NodeRole.SERVING}
        traffic = self._traffic(spec.pool, {node.node for node in nodes}, names, now)
        return blast_radius(spec, revision.knobs.knobs(), nodes, traffic)

    def told(self, session: Session, now: datetime) -> Callable[[RolloutCreate], BlastRadius | None]:
        """The radius of a rollout, for a forecast; None where its pool has no node that may be told."""

        def radius_of(spec: RolloutCreate) -> BlastRadius | None:
            return self.radius(session, spec, now) if policies.tellable(session, spec.pool) else None

        return radius_of

    def check(self, session: Session, spec: RolloutCreate, now: datetime) -> None:
        """Raises `Conflict` where the radius is larger than the rollout says that it may be."""
        if spec.max_blast is not None:
            refuse_beyond(spec.max_blast, self.radius(session, spec, now))

    def _traffic(self, pool: str, mine: set[str], serving: set[str], now: datetime) -> Traffic:
        span = Span(now - timedelta(seconds=WHILE_S), now)
        by_node = {
            series.labels[NODE.label]: series.value
            for series in self.telemetry.scalars(Question(REQUESTS.short, span, (NODE.label,)))
            if series.labels[NODE.label] in serving
        }
        served = {POOL.label: pool, ROLE.label: ""}
        tenants = self.telemetry.scalars(Question(REQUESTS.short, span, (TENANT.label,), served))
        return Traffic(
            by_node={node: requests for node, requests in by_node.items() if node in mine},
            fleet=sum(by_node.values()),
            tenants=[series.labels[TENANT.label] for series in tenants if series.labels[TENANT.label]],
        )


@dataclass(frozen=True, kw_only=True)
class ReachParts(AuthParts):
    """What these routes are served with."""

    reach: ReachDesk


Reaches = Annotated[ReachParts, Depends(ReachParts.given)]


@router.post("/rollouts:blast-radius", responses=answers(NotFound, Conflict))
def preview_blast_radius(wanted: RolloutCreate, session: SessionDep, _: Reader, service: Reaches) -> BlastRadius:
    """What a rollout would reach, before anybody proposes it: nodes, traffic, tenants, seconds without service. Nothing
    is done. What it would be judged by is checked as a proposal's is."""
    check_judged_by(wanted)
    return service.reach.radius(session, wanted, service.clock())


@router.get("/rollouts/{rollout_id}/blast-radius", responses=answers(NotFound, Conflict))
def read_blast_radius(rollout_id: PathId, session: SessionDep, _: Reader, service: Reaches) -> BlastRadius:
    """What a rollout that is there would reach if it began now."""
    return service.reach.radius(session, store.get(session, rollout_id).spec, service.clock())
