"""What a new service still lacks, over HTTP, for the pages that are empty as long."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Depends
from sqlmodel import Session

from controlplane.api.first_steps import Place, Seen, first_steps
from controlplane.auth import Reader
from controlplane.contract.bodies.access import Scope
from controlplane.contract.bodies.onboarding import Onboarding
from controlplane.contract.metrics import E2E
from controlplane.db import SessionDep
from controlplane.fleet import store as fleet
from controlplane.telemetry.http.telemetry_parts import TelemetryParts
from controlplane.telemetry.store import TelemetryStore

router = APIRouter(prefix="/api/v1", tags=["nodes"])


@dataclass(frozen=True, kw_only=True)
class OnboardingParts(TelemetryParts):
    """place: what stands in the commands on the service's own machine; local: nobody calls from another one."""

    place: Place
    local: bool


@router.get("/onboarding")
def get_onboarding(
    session: SessionDep, principal: Reader, service: Annotated[OnboardingParts, Depends(OnboardingParts.given)]
) -> Onboarding:
    """How far a new service is: an engine, its agent, traffic; each with the command that does it."""
    # Files of the service's machine are told to who may have the tokens anyway, or who is on that machine.
    told = service.local or principal.scope is Scope.ADMIN
    place = as_it_is(service.place) if told else Place(service.place.service_url)
    seen = seen_so_far(session, service.telemetry)
    return Onboarding(
        service_url=place.service_url,
        enrolment_token_file=None if place.enrolment_token_file is None else str(place.enrolment_token_file),
        reported=seen.reported,
        steps=first_steps(place, seen),
    )


def as_it_is(place: Place) -> Place:
    """With the token files that are there: their owner may have moved them elsewhere."""
    return replace(
        place,
        enrolment_token_file=_there(place.enrolment_token_file),
        read_token_file=_there(place.read_token_file),
    )


def seen_so_far(session: Session, telemetry: TelemetryStore) -> Seen:
    """What the service has seen: nodes that are enrolled now, and any telemetry ever."""
    metrics = telemetry.metric_names()
    return Seen(
        enrolled=fleet.any_node(session),
        engine=fleet.any_node(session, read=True),
        reported=bool(metrics),
        measured=E2E.name in metrics,
    )


def _there(file: Path | None) -> Path | None:
    return file if file is not None and file.is_file() else None
