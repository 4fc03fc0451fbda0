"""The application with its document: what FastAPI writes of the routes, completed."""

from typing import Any

from fastapi.routing import APIRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from controlplane.api.document import complete
from controlplane.fleet.opamp import opamp_socket
from controlplane.fleet.opamp.hub import FleetParts
from controlplane.telemetry.http.receiver import Application

DESCRIPTION = """The control plane beside an LLM serving fleet: sees the latency tail first, says why, and fixes it.

Send `Authorization: Bearer TOKEN`. Scopes: `read` < `operate` < `admin`; `agent`, `enrol` and `post` stand apart.

Collections are `{"items": [...], "next": cursor | null}`, newest first: pass `next` back as `?cursor=`.

Errors are `{"error": {"code", "message", "detail"}}`. Fields and parameters that nobody knows are refused, and so are
values of another JSON type than a field has. A method that an address does not take is a 405 with `Allow`; a 500 is a
fault of the service, whose log has it.

Times are RFC 3339 in UTC; durations are seconds where a name ends in `_s`."""

TAGS = [
    {"name": "telemetry", "description": "Reports in; quantiles, rates, shares, heat maps and requests out."},
    {"name": "opamp", "description": "OpAMP 1.0 for agents: what a node should run, and what it truly runs."},
    {"name": "nodes", "description": "The fleet's nodes."},
    {"name": "configs", "description": "Configuration revisions: numbered, never changed."},
    {"name": "alerts", "description": "Alert rules, alerts, webhooks and silences."},
    {"name": "incidents", "description": "One for the alerts of one cause: who looks at it, and what happened."},
    {"name": "inbound", "description": "What others send: acknowledgements, alerts of other systems, deploys."},
    {"name": "rollouts", "description": "Bringing a revision to a pool as a judged canary."},
    {"name": "verdicts", "description": "Pass, fail or inconclusive: for Argo Rollouts, Flagger and pipelines."},
    {"name": "studies", "description": "Searching for a better configuration on trial nodes."},
    {"name": "ledger", "description": "Who or what did what, and on what evidence; append-only."},
    {"name": "tokens", "description": "Who may do what."},
    {"name": "people", "description": "People who sign in at an issuer, and everybody's sessions."},
    {"name": "health", "description": "For probes, without a token; and what runs here."},
]


def operation_id(route: APIRoute) -> str:
    """The function's name, which generated clients call their methods by."""
    return route.name


class DocumentedApplication(Application):
    """`Application` whose OpenAPI document tells every answer of every route; agents' WebSockets are beside them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if opamp_socket.serves(scope):
            await opamp_socket.serve(WebSocket(scope, receive, send), FleetParts.of(self))
        else:
            await super().__call__(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        before = self.openapi_schema
        written = super().openapi()
        if written is not before:
            complete(written, list(self.routes))
        return written
