"""Every domain's routes, in the order of the documentation."""

from collections.abc import Sequence
from functools import cache

from fastapi import APIRouter, Depends
from starlette.routing import BaseRoute

from controlplane.advice import endpoints as advice
from controlplane.alerts import endpoints as alerts
from controlplane.api import ledger_endpoints, onboarding_endpoints, probes, service_endpoints
from controlplane.api.application import operation_id
from controlplane.api.json_kinds import refuse_wrong_kinds
from controlplane.api.storable_text import refuse_unstorable_text
from controlplane.api.unknown_fields import refuse_unknown_fields
from controlplane.auth import endpoints as tokens
from controlplane.auth import people_endpoints, sign_in_endpoints
from controlplane.auth.oidc import endpoints as sign_in_at_issuer
from controlplane.declared import endpoints as declared
from controlplane.fleet import endpoints as fleet
from controlplane.inbound import callback_endpoints
from controlplane.inbound import endpoints as inbound
from controlplane.incidents import endpoints as incidents
from controlplane.rollouts import endpoints as rollouts
from controlplane.rollouts.hooks import endpoints as hooks
from controlplane.rollouts.policies import endpoints as policies
from controlplane.rollouts.reach import reach_endpoints
from controlplane.rollouts.verdicts import verdict_endpoints
from controlplane.studies import endpoints as studies
from controlplane.studies import lease_endpoints
from controlplane.studies.prompt_sets import prompt_set_endpoints
from controlplane.studies.workloads import workload_endpoints
from controlplane.telemetry.http import endpoints as telemetry
from controlplane.whatif import endpoints as whatif

CHECKS = (Depends(refuse_unstorable_text), Depends(refuse_unknown_fields), Depends(refuse_wrong_kinds))
"""What every request passes first."""


@cache
def all_routes() -> Sequence[BaseRoute]:
    """Made once in a process, whatever number of applications has them: FastAPI takes a route's function apart anew for
    each application that includes its router, at the first request, and that is a quarter of a second for all."""
    whole = APIRouter(dependencies=CHECKS, generate_unique_id_function=operation_id)
    for router in _routers():
        whole.include_router(router)
    return tuple(whole.routes)


def _routers() -> list[APIRouter]:
    return [
        telemetry.router,
        fleet.router,
        alerts.router,
        declared.router,
        incidents.router,
        inbound.router,
        callback_endpoints.router,
        rollouts.router,
        reach_endpoints.router,
        verdict_endpoints.router,
        policies.router,
        hooks.router,
        studies.router,
        lease_endpoints.router,
        workload_endpoints.router,
        prompt_set_endpoints.router,
        whatif.router,
        advice.router,
        onboarding_endpoints.router,
        ledger_endpoints.router,
        tokens.router,
        sign_in_endpoints.router,
        sign_in_at_issuer.router,
        people_endpoints.router,
        service_endpoints.router,
        probes.router,
    ]
