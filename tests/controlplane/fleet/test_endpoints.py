"""Nodes, revisions and enrolment over HTTP."""

import sqlite3
from typing import Any

import httpx
import pytest

from controlplane.auth import store as tokens
from controlplane.client import Client
from controlplane.contract.bodies.access import EnrolmentRequest, Scope, TokenCreate
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import NodeRole, NodeView, TrialConfig
from controlplane.contract.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    KnobOutOfRange,
    NotFound,
    TokenExpired,
    Unauthenticated,
    UnknownKnob,
)


def with_scope(service: Any, scope: Scope, name: str) -> Client:
    return Client(service.url, service.admin.create_token(TokenCreate(name=name, scope=scope)).token)


def test_enrolment_answers_a_bound_token_and_the_fleet_s_key(service: Any, name: str) -> None:
    wanted = EnrolmentRequest(node=name, pool=name, backend="vllm", role="trial")
    first = service.enroller.enrol(wanted)
    second = service.enroller.enrol(wanted)
    assert first.node == second.node == name
    assert first.workload_key == second.workload_key
    assert len(bytes.fromhex(first.workload_key)) == 16
    with pytest.raises(Unauthenticated):
        Client(service.url, first.token).whoami()
    who = Client(service.url, second.token).whoami()
    assert (who.scope, who.node) == (Scope.AGENT, name)
    entry = service.admin.ledger(kind="node.enrolled", subject=f"node/{name}")[0]
    assert entry.actor == "enrolment"
    assert (entry.evidence["again"], entry.evidence["role"]) == (True, "trial")


def test_an_expired_token_registers_nobody(service: Any, name: str) -> None:
    now = service.parts.clock()
    with service.parts.database.session() as session:
        _, token = tokens.issue(session, name=name, scope=Scope.ENROL, now=now, expires_at=now)
    with pytest.raises(TokenExpired):
        Client(service.url, token).enrol(EnrolmentRequest(node=name, pool=name, backend="vllm"))
    with pytest.raises(NotFound):
        service.admin.node(name)


def test_scopes_are_kept_apart(service: Any, name: str) -> None:
    agent = Client(service.url, service.enrol(name, name, "trial"))
    reader = with_scope(service, Scope.READ, name)
    wanted = EnrolmentRequest(node=name, pool=name, backend="vllm")
    for client in (reader, agent):
        with pytest.raises(Forbidden):
            client.enrol(wanted)
        with pytest.raises(Forbidden):
            client.create_config(RevisionCreate(knobs={}))
        with pytest.raises(Forbidden):
            client.set_trial_config(name, TrialConfig(knobs={}))
    for client in (agent, service.enroller):
        with pytest.raises(Forbidden):
            client.nodes()
    assert reader.node(name).node == name
    operator = with_scope(service, Scope.OPERATE, name)
    assert httpx.delete(f"{service.url}/api/v1/nodes/{name}", headers=bearer(operator)).status_code == 403


def bearer(client: Client) -> dict[str, str]:
    return {"Authorization": client._http.headers["Authorization"]}


def test_configs_are_found_again_by_their_knobs(service: Any) -> None:
    url, headers = f"{service.url}/api/v1/configs", bearer(service.admin)
    body = {"knobs": {"max_num_seqs": 1234}, "note": "wide"}
    first, second = httpx.post(url, json=body, headers=headers), httpx.post(url, json=body, headers=headers)
    assert (first.status_code, second.status_code) == (201, 200)
    assert first.json() == second.json()
    number = first.json()["number"]
    assert service.admin.config(number).created_by == "admin"
    numbers = [revision.number for revision in service.admin.configs()]
    assert numbers == sorted(numbers, reverse=True)
    assert number in numbers


def test_wrong_knobs_name_the_field(service: Any, name: str) -> None:
    service.enrol(name, name, "trial")
    for call in (
        lambda knobs: service.admin.create_config(RevisionCreate(knobs=knobs)),
        lambda knobs: service.admin.set_trial_config(name, TrialConfig(knobs=knobs)),
    ):
        with pytest.raises(UnknownKnob, match="did you mean 'max_num_seqs'") as unknown:
            call({"max_num_seq": 3})
        assert unknown.value.detail["field"] == "knobs.max_num_seq"
        with pytest.raises(KnobOutOfRange) as outside:
            call({"quantization": "int3"})
        assert outside.value.detail["field"] == "knobs.quantization"
    assert service.admin.node(name).desired_revision is None


def test_trial_nodes_are_set_directly_and_serving_nodes_are_not(service: Any, name: str) -> None:
    service.enrol(name, name, "trial")
    service.enrol(f"{name}-s", name)
    view = service.admin.set_trial_config(name, TrialConfig(knobs={"max_num_seqs": 77}))
    assert view.desired_revision is not None
    assert service.admin.config(view.desired_revision).knobs.max_num_seqs == 77
    with pytest.raises(Conflict, match="changed by rollouts"):
        service.admin.set_trial_config(f"{name}-s", TrialConfig(knobs={"max_num_seqs": 77}))
    with pytest.raises(NotFound):
        service.admin.set_trial_config(f"{name}-nobody", TrialConfig(knobs={}))


def test_nodes_are_paged_by_name(service: Any, name: str) -> None:
    names = [f"{name}-{place}" for place in range(5)]
    for node in reversed(names):
        service.enrol(node, name)
    service.enrol(f"{name}-t", name, "trial")
    assert [view.node for view in service.admin.every(NodeView, "/api/v1/nodes", pool=name, limit=2)] == [
        *names,
        f"{name}-t",
    ]
    found = service.admin.every(NodeView, "/api/v1/nodes", pool=name, role="trial")
    assert [view.node for view in found] == [f"{name}-t"]
    found = service.admin.every(NodeView, "/api/v1/nodes", name=f"{name}-T".upper())
    assert [view.node for view in found] == [f"{name}-t"]
    assert list(service.admin.every(NodeView, "/api/v1/nodes", pool=name, name="%")) == []
    chosen = f"role=serving, pool={name}, node notin ({names[0]}, {names[3]})"
    found = service.admin.every(NodeView, "/api/v1/nodes", selector=chosen, limit=1)
    assert [view.node for view in found] == [names[1], names[2], names[4]]
    assert [view.node for view in service.admin.nodes(role=NodeRole.TRIAL, selector=f"pool={name}")] == [f"{name}-t"]
    with pytest.raises(BadRequest, match=r"query\.selector: at character 8: wants a value, got its end") as refused:
        service.admin.nodes(selector="region=")
    assert refused.value.detail["field"] == "query.selector"


def test_a_removed_node_is_gone_with_its_tokens(service: Any, name: str) -> None:
    token = service.enrol(name, name)
    assert httpx.delete(f"{service.url}/api/v1/nodes/{name}", headers=bearer(service.admin)).status_code == 204
    with pytest.raises(NotFound):
        service.admin.node(name)
    with pytest.raises(Unauthenticated):
        Client(service.url, token).whoami()


def test_secrets_are_hashed_at_rest(service: Any, name: str) -> None:
    token = service.enrol(name, name)
    secrets = [token, *(service.token(f"{file}-token") for file in ("admin", "enrolment", "tuner", "dashboard"))]
    with sqlite3.connect(service.data_dir / "tailwright.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    files = [path.read_bytes() for path in service.data_dir.glob("tailwright.db*")]
    assert files
    for secret in secrets:
        assert all(secret.encode() not in content for content in files)
        assert all(secret.removeprefix("tailwright_").encode() not in content for content in files)
