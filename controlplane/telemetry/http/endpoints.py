"""The domain's routes. POST /v1/* is answered by `receiver`, in front of them: here it is declared, for OpenAPI."""

from typing import Any

from fastapi import APIRouter

from controlplane.auth import AgentAccess
from controlplane.contract.error_answer import answers
from controlplane.contract.errors import Overloaded
from controlplane.contract.reports import packed_report
from controlplane.contract.reports.media_types import PROTOBUF
from controlplane.telemetry.http import export_endpoints, history_endpoints, query_endpoints
from controlplane.telemetry.otlp import otlp_bodies

_BINARY = {"type": "string", "format": "binary"}

router = APIRouter(tags=["telemetry"])
router.include_router(query_endpoints.router)
router.include_router(export_endpoints.router)
router.include_router(history_endpoints.router)


def _body(member: str, *kinds: str) -> dict[str, Any]:
    """`member`: where an OTLP message in JSON has its resources."""
    told = "as OTLP 1.x says; an item that is none is refused by itself, and the others are kept"
    resources = {"type": ["array", "null"], "description": told}
    message = {"type": "object", "properties": {member: resources}}
    content = {kind: {"schema": message if kind == otlp_bodies.JSON else _BINARY} for kind in kinds}
    return {"requestBody": {"required": True, "content": content}}


def _kept(message: str) -> dict[int | str, dict[str, Any]]:
    """The good answer, in the content type of the request, and those that say when to send again."""
    content: dict[str, Any] = {otlp_bodies.JSON: {"schema": {"type": "object"}}, PROTOBUF: {"schema": _BINARY}}
    return {200: {"description": f"kept, and durable: {message}", "content": content}, **answers(Overloaded)}


@router.post(
    "/v1/metrics",
    openapi_extra=_body("resourceMetrics", *otlp_bodies.KINDS, packed_report.MEDIA_TYPE),
    responses=_kept("ExportMetricsServiceResponse, empty in protobuf when nothing was refused"),
)
def export_metrics(_: AgentAccess) -> None:
    """OTLP/HTTP metrics, protobuf or JSON, or a packed report. 200 once they are durable.

    `partial_success` tells of refused points, 429 and 503 when to send again (`Retry-After`).
    """
    raise AssertionError("the receiver is installed in front of this route")


@router.post(
    "/v1/traces",
    openapi_extra=_body("resourceSpans", *otlp_bodies.KINDS),
    responses=_kept("ExportTraceServiceResponse"),
)
def export_traces(_: AgentAccess) -> None:
    """OTLP/HTTP traces: spans named `llm_request` are kept, one per finished request; others are counted as refused."""
    raise AssertionError("the receiver is installed in front of this route")
