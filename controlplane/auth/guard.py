"""FastAPI dependencies that let a request in: `principal: Operator` is all an endpoint has to say.

They are coroutines: FastAPI hands other dependencies to a worker thread each, which costs more than the look-up.
"""

from typing import Annotated

from fastapi import Depends, Request

from controlplane.auth.principal import Principal, check_scope
from controlplane.auth.token_cache import AuthParts
from controlplane.contract.bodies.access import Scope


class Needs:
    """The dependency: a known token, of this scope (None: of any). The API's document reads `scope` from it."""

    def __init__(self, scope: Scope | None) -> None:
        self.scope = scope

    async def __call__(self, request: Request) -> Principal:
        parts = AuthParts.of(request.app)
        authorization = request.headers.get("Authorization", "")
        principal = parts.tokens.known(authorization) or await parts.tokens.find(authorization)
        parts.node_certificates.check(principal, request.scope)
        if self.scope is not None:
            check_scope(principal, self.scope)
        return principal


Holder = Annotated[Principal, Depends(Needs(None))]
Reader = Annotated[Principal, Depends(Needs(Scope.READ))]
Operator = Annotated[Principal, Depends(Needs(Scope.OPERATE))]
Admin = Annotated[Principal, Depends(Needs(Scope.ADMIN))]
AgentAccess = Annotated[Principal, Depends(Needs(Scope.AGENT))]
Enroller = Annotated[Principal, Depends(Needs(Scope.ENROL))]
