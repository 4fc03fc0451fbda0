"""What runs here: release, sizes, and the numbers that it was started with."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends

from controlplane.api.probes import ProbeParts
from controlplane.auth import Reader
from controlplane.contract.bodies.health import ServiceView, SettingInForce
from controlplane.db import SessionDep
from controlplane.db.database_size import database_bytes
from controlplane.terminal.checkout import release

router = APIRouter(prefix="/api/v1", tags=["health"])


@dataclass(frozen=True, kw_only=True)
class ServiceParts(ProbeParts):
    """in_force: the settings that may be told to every reader."""

    in_force: Sequence[SettingInForce] = ()


@router.get("/service")
def get_service(
    session: SessionDep, _: Reader, service: Annotated[ServiceParts, Depends(ServiceParts.given)]
) -> ServiceView:
    """The service itself: its release, what it keeps and how much room that takes, and the settings in force."""
    space = service.disk.look()
    return ServiceView(
        version=release(),
        database="sqlite" if service.database.is_sqlite else "postgresql",
        database_bytes=database_bytes(session),
        disk_free_bytes=None if space is None else space.free_bytes,
        settings=list(service.in_force),
    )
