"""FastAPI dependencies that let a request in: `principal: Operator` is all an endpoint has to say.

They are coroutines: FastAPI hands other dependencies to a worker thread each, which costs more than the look-up.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request

from controlplane.auth.principal import Principal, check_scope
from controlplane.auth.token_cache import tokens_of
from controlplane.contract.access import Scope

__all__ = ["Admin", "AgentAccess", "Enroller", "Operator", "Principal", "Reader", "check_scope"]


def _needs(scope: Scope) -> Callable[[Request], Awaitable[Principal]]:
    async def dependency(request: Request) -> Principal:
        tokens = tokens_of(request.app.state)
        authorization = request.headers.get("Authorization", "")
        principal = tokens.known(authorization) or await tokens.find(authorization)
        check_scope(principal, scope)
        return principal

    return dependency


Reader = Annotated[Principal, Depends(_needs(Scope.READ))]
Operator = Annotated[Principal, Depends(_needs(Scope.OPERATE))]
Admin = Annotated[Principal, Depends(_needs(Scope.ADMIN))]
AgentAccess = Annotated[Principal, Depends(_needs(Scope.AGENT))]
Enroller = Annotated[Principal, Depends(_needs(Scope.ENROL))]
