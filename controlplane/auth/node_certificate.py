"""Which machine may speak for a node: the one that shows a certificate with the node's name, where the service asks so.

Guarantee: a node's token that was taken from its machine is worth nothing elsewhere; each attempt is counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from controlplane.auth.principal import Principal
from controlplane.contract.errors import Forbidden
from controlplane.serving.limits import Doorkeeper, Refused
from controlplane.serving.tls import NODE_URI, TLS_NAMES


@dataclass(frozen=True)
class NodeCertificates:
    """`required`: a CA was named that vouches for nodes."""

    required: bool = False
    door: Doorkeeper = field(default_factory=Doorkeeper)

    def check(self, principal: Principal, scope: Mapping[str, Any]) -> None:
        """Raises `Forbidden` where a token is bound to a node that the connection of this ASGI scope is not of."""
        if principal.node is not None:
            self.check_node(principal.node, scope)

    def check_node(self, node: str, scope: Mapping[str, Any]) -> None:
        """Raises `Forbidden` where the connection of this ASGI scope is not the node's."""
        names = scope.get("state", {}).get(TLS_NAMES, frozenset())
        if not self.required or NODE_URI + node in names:
            return
        self.door.refuse(Refused.NODE_CERTIFICATE)
        shown = f"the one shown is for {', '.join(sorted(names))}" if names else "none was shown"
        raise Forbidden(
            f"client certificate: one for {NODE_URI}{node} is needed, {shown}; `tailwright tls node {node}` makes it, "
            "client_cert and client_key have the agent show it",
            field="client_cert",
        )
