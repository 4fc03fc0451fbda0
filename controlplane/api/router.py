"""Every domain's routes, in the order of the documentation."""

from fastapi import APIRouter

from controlplane.advice import endpoints as advice
from controlplane.alerts import endpoints as alerts
from controlplane.api import ledger_endpoints, onboarding_endpoints, probes, service_endpoints
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
from controlplane.telemetry.http import endpoints as telemetry
from controlplane.whatif import endpoints as whatif


def all_routers() -> list[APIRouter]:
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
