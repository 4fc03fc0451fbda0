"""A declared set of alerting over HTTP."""

from fastapi import APIRouter

from controlplane.alerts.endpoints import Alerts
from controlplane.auth import Operator
from controlplane.contract.on_call.declared_alerting import AlertingChanges, AlertingSet
from controlplane.db import SessionDep
from controlplane.declared.applying import apply
from controlplane.declared.declarable import Hand

router = APIRouter(prefix="/api/v1", tags=["alerts"])


@router.put("/alerting")
def apply_alerting(wanted: AlertingSet, session: SessionDep, principal: Operator, service: Alerts) -> AlertingChanges:
    """Make it so as files declare it, whole or not at all: `tailwright apply`. With `dry_run`: `tailwright plan`. A
    thing is known by its name; only what a file made is removed, and only with `prune`. Destinations want `admin`."""
    hand = Hand(session, service.keyring, principal.actor, service.clock(), service.public_url, service.check_remedy)
    return apply(wanted, hand, principal)
