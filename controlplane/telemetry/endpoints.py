"""The domain's routes. POST /v1/* is answered by `receiver`, in front of them: here it is declared, for OpenAPI."""

from typing import Any

from fastapi import APIRouter

from controlplane.auth import AgentAccess
from controlplane.contract import packed_report
from controlplane.telemetry import history_endpoints, otlp, query_endpoints

router = APIRouter(tags=["telemetry"])
router.include_router(query_endpoints.router)
router.include_router(history_endpoints.router)


def _body(*kinds: str) -> dict[str, Any]:
    binary = {"schema": {"type": "string", "format": "binary"}}
    return {"requestBody": {"required": True, "content": {kind: binary for kind in kinds}}}


@router.post("/v1/metrics", openapi_extra=_body(*otlp.KINDS, packed_report.MEDIA_TYPE))
def export_metrics(_: AgentAccess) -> None:
    """OTLP/HTTP metrics, protobuf or JSON, or a packed report. 200 once they are durable.

    `partial_success` tells of refused points, 429 and 503 when to send again (`Retry-After`).
    """
    raise AssertionError("the receiver is installed in front of this route")


@router.post("/v1/traces", openapi_extra=_body(*otlp.KINDS))
def export_traces(_: AgentAccess) -> None:
    """OTLP/HTTP traces: spans named `llm_request` are kept, one per finished request; others are counted as refused."""
    raise AssertionError("the receiver is installed in front of this route")
