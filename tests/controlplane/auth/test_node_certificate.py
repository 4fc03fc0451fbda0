"""Which connections a node's token counts on."""

from typing import Any

import pytest

from controlplane.auth.node_certificate import NodeCertificates
from controlplane.auth.principal import Principal
from controlplane.contract.bodies.access import Scope
from controlplane.contract.errors import Forbidden
from controlplane.serving.limits import Refused
from controlplane.serving.tls import NODE_URI, TLS_NAMES

NODES = Principal("agent gpu-1", Scope.AGENT, 1, "gpu-1")


def shown(*names: str) -> dict[str, Any]:
    return {"state": {TLS_NAMES: frozenset(names)}}


def test_its_own_certificate_lets_a_node_in() -> None:
    certificates = NodeCertificates(required=True)
    certificates.check(NODES, shown("gpu-1", f"{NODE_URI}gpu-1"))
    assert not certificates.door.refused


@pytest.mark.parametrize(
    "scope",
    [
        {},
        {"state": {}},
        shown(f"{NODE_URI}gpu-2"),
        shown(f"{NODE_URI}gpu-10"),
        shown("gpu-1"),  # A server's certificate may have this name.
        shown(NODE_URI, "", "gpu-1"),
    ],
)
def test_anything_else_does_not_and_is_counted(scope: dict[str, Any]) -> None:
    certificates = NodeCertificates(required=True)
    with pytest.raises(Forbidden, match="`tailwright tls node gpu-1`") as refused:
        certificates.check(NODES, scope)
    assert refused.value.detail["field"] == "client_cert"
    assert certificates.door.refused == {Refused.NODE_CERTIFICATE: 1}


def test_people_and_services_without_a_client_ca_need_none() -> None:
    NodeCertificates(required=True).check(Principal("admin", Scope.ADMIN, 2), {})
    NodeCertificates(required=False).check(NODES, {})
