"""OpAMP over both transports against a running service: the same promises hold on each."""

import gzip
import json
import logging
import random
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from opentelemetry._opamp.proto import opamp_pb2
from sqlalchemy.exc import OperationalError
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from controlplane.auth import token_cache
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import ConfigStatus, TrialConfig
from controlplane.contract.knobs import EngineConfig
from controlplane.fleet import store as fleet
from controlplane.serving.limits import Refused

REPORT_FULL_STATE = 1
APPLIED, APPLYING, FAILED = 1, 2, 3


def production(service: Any, pool: str, **knobs: Any) -> int:
    """Make a revision with these knobs the pool's, as a rollout does; returns its number."""
    with service.parts.database.session() as session:
        now = service.parts.clock()
        made = fleet.create_revision(session, RevisionCreate(knobs=knobs), "test", now)
        fleet.set_pool_revision(session, pool, made.number, now)
    return int(made.number)


def test_a_full_report_becomes_the_node_s_view(service: Any, wire: Any, make_agent: Any, name: str) -> None:
    agent = make_agent(name, name)
    with wire(service.enrol(name, name)) as line:
        reply = line.exchange(agent.full({"max_num_seqs": 16}))
        view = service.admin.node(name)
    assert reply.instance_uid == agent.uid
    assert reply.capabilities == 0x27
    assert reply.flags == 0
    assert not reply.HasField("error_response")
    assert (view.pool, view.role, view.backend, view.model) == (name, "serving", "embedded", "tiny")
    assert (view.connected, view.healthy, view.agent_version) == (True, True, "1.2")
    assert view.engine_url == "http://127.0.0.1:7400"
    assert view.unaccounted_share == 0.0125
    assert view.last_seen is not None
    assert view.effective is not None
    assert view.effective.knobs == {"max_num_seqs": 16}
    assert view.effective.sources == {"max_num_seqs": "GET /config"}


def test_an_engine_s_restarts_and_versions_are_kept_in_the_ledger(
    service: Any, wire: Any, make_agent: Any, name: str
) -> None:
    agent = make_agent(name, name)
    with wire(service.enrol(name, name)) as line:
        line.exchange(agent.full())  # It has not reached its engine.
        for process, version in (("plugin:a", "vllm 1"), ("plugin:a", "vllm 1"), ("plugin:b", "vllm 1")):
            line.exchange(agent.of_engine(process, version))
        line.exchange(agent.full())
        line.exchange(agent.of_engine("plugin:c", "vllm 2"))
    entries = service.admin.ledger(kind="node", subject=f"node/{name}")
    told = [(one.kind, one.message) for one in entries if one.kind.startswith("node.engine_")]
    assert told == [
        ("node.engine_version", f"the engine of node {name} is vllm 2, was vllm 1"),
        ("node.engine_restarted", f"the engine of node {name} was started again: vllm 1"),
    ]
    assert service.admin.node(name).engine_version == "vllm 2"


def test_a_trial_node_s_engine_is_its_study_s_matter(service: Any, wire: Any, make_agent: Any, name: str) -> None:
    agent = make_agent(name, name, "trial")
    with wire(service.enrol(name, name, role="trial")) as line:
        for process in ("engine:a", "engine:b"):
            line.exchange(agent.of_engine(process, "tailwright 1"))
    kinds = {one.kind for one in service.admin.ledger(kind="node", subject=f"node/{name}")}
    assert "node.enrolled" in kinds and "node.engine_restarted" not in kinds


def test_labels_are_those_of_the_last_description_and_a_wrong_one_is_told(
    service: Any, wire: Any, make_agent: Any, name: str
) -> None:
    agent = make_agent(name, name)
    with wire(service.enrol(name, name)) as line:
        assert not line.exchange(agent.full()).HasField("error_response")
        assert service.admin.node(name).labels == {}
        reply = line.exchange(agent.labelled({"cloud.region": "eu-1", "tailwright.label.rack": "a b"}))
        assert "labels: rack: a label's value is 1 to 63" in reply.error_response.error_message
        assert service.admin.node(name).labels == {"region": "eu-1"}
        line.exchange(agent.message())
        assert service.admin.node(name).labels == {"region": "eu-1"}, "what is left out has not changed"
        line.exchange(agent.labelled({"tailwright.label.rack": "r1"}))
        assert service.admin.node(name).labels == {"rack": "r1"}


def test_a_gap_in_the_sequence_asks_for_the_full_state(service: Any, wire: Any, make_agent: Any, name: str) -> None:
    agent = make_agent(name, name)
    with wire(service.enrol(name, name)) as line:
        assert line.exchange(agent.message()).flags == REPORT_FULL_STATE
        assert line.exchange(agent.full()).flags == 0
        assert line.exchange(agent.message()).flags == 0
        assert line.exchange(agent.message(skip=1)).flags == REPORT_FULL_STATE
        assert line.exchange(agent.full()).flags == 0
        restarted = make_agent(name, name)
        assert line.exchange(restarted.message()).flags == REPORT_FULL_STATE


def test_a_configuration_is_offered_until_it_is_acknowledged(
    service: Any, wire: Any, make_agent: Any, name: str
) -> None:
    agent = make_agent(name, name)
    token = service.enrol(name, name)
    number = production(service, name, max_num_seqs=7)
    with wire(token) as line:
        offered = line.exchange(agent.full({"max_num_seqs": 16})).remote_config
        again = line.exchange(agent.message()).remote_config
        assert again == offered
        entry = offered.config.config_map["engine.json"]
        body = json.loads(entry.body)
        assert entry.content_type == "application/json"
        assert body["revision"] == number
        assert EngineConfig(**body["knobs"]) == EngineConfig(max_num_seqs=7)
        assert offered.config_hash == f"{number}:{body['hash']}".encode()
        before = service.admin.node(name)
        assert (before.config_status, before.drift, before.desired_revision) == (ConfigStatus.APPLYING, True, number)

        assert not line.exchange(agent.status(offered.config_hash, APPLYING)).HasField("remote_config")
        done = agent.status(offered.config_hash, APPLIED)
        agent.add_effective(done, body["knobs"], number)
        assert not line.exchange(done).HasField("remote_config")
        after = service.admin.node(name)
    assert (after.config_status, after.drift, after.drift_since) == (ConfigStatus.APPLIED, False, None)
    kinds = [entry.kind for entry in service.admin.ledger(subject=f"node/{name}")]
    assert kinds == ["node.config_applied", "node.enrolled"]


def test_a_failure_is_kept_with_its_message(service: Any, wire: Any, make_agent: Any, name: str) -> None:
    agent = make_agent(name, name)
    token = service.enrol(name, name)
    number = production(service, name, max_num_seqs=8)
    with wire(token) as line:
        offered = line.exchange(agent.full({"max_num_seqs": 16})).remote_config
        reply = line.exchange(agent.status(offered.config_hash, FAILED, "out of memory"))
        view = service.admin.node(name)
    assert not reply.HasField("remote_config")
    assert (view.config_status, view.config_error, view.drift) == (ConfigStatus.FAILED, "out of memory", True)
    newest = service.admin.ledger(subject=f"node/{name}")[0]
    assert newest.kind == "node.config_failed"
    assert newest.message == f"revision {number} could not be applied: out of memory"


def test_the_first_serving_node_s_configuration_is_adopted(service: Any, wire: Any, make_agent: Any, name: str) -> None:
    agent, trial = make_agent(name, name), make_agent(f"{name}-t", name, "trial")
    with wire(service.enrol(trial.node, name, "trial")) as line:
        line.exchange(trial.full({"max_num_seqs": 3}))
        assert service.admin.node(trial.node).desired_revision is None
    with wire(service.enrol(name, name)) as line:
        reply = line.exchange(agent.full({"max_num_seqs": 9, "of_the_engine": 1}))
        view = service.admin.node(name)
        # The node is given the number of the revision that was adopted from it, with its own knobs.
        offered = json.loads(reply.remote_config.config.config_map["engine.json"].body)
        assert (offered["revision"], offered["knobs"]["max_num_seqs"]) == (view.desired_revision, 9)
    assert view.desired_revision is not None
    assert not view.drift
    revision = service.admin.config(view.desired_revision)
    assert revision.knobs == EngineConfig(max_num_seqs=9)
    entry = service.admin.ledger(subject=f"pool/{name}")[0]
    assert (entry.kind, entry.evidence["revision"], entry.evidence["node"]) == (
        "revision.adopted",
        revision.number,
        name,
    )
    # The next node of the pool is given the pool's revision.
    other = make_agent(f"{name}-2", name)
    with wire(service.enrol(other.node, name)) as line:
        assert line.exchange(other.full({"max_num_seqs": 10})).HasField("remote_config")


def test_another_node_s_token_is_refused(service: Any, wire: Any, make_agent: Any, name: str) -> None:
    token = service.enrol(name, name)
    service.enrol(f"{name}-other", name)
    with wire(token) as line:
        reply = line.exchange(make_agent(f"{name}-other", name).full({"max_num_seqs": 5}))
    assert reply.error_response.type == opamp_pb2.ServerErrorResponseType_BadRequest
    assert f"bound to node '{name}'" in reply.error_response.error_message
    assert not service.admin.node(f"{name}-other").connected
    assert service.admin.node(f"{name}-other").effective is None


def test_a_wrong_part_does_not_lose_the_others(service: Any, wire: Any, make_agent: Any, name: str) -> None:
    agent = make_agent(name, name)
    message = agent.full()
    message.health.component_health_map["decomposition"].status = "little"
    message.effective_config.config_map.config_map["effective.json"].body = b'{"revision": "x", "knobs": {}}'
    with wire(service.enrol(name, name)) as line:
        reply = line.exchange(message)
        view = service.admin.node(name)
    assert reply.error_response.type == opamp_pb2.ServerErrorResponseType_BadRequest
    assert "health.decomposition.status" in reply.error_response.error_message
    assert "effective.json.revision" in reply.error_response.error_message
    assert (view.healthy, view.model) == (True, "tiny")


def test_an_effective_configuration_out_of_bounds_is_shown_but_not_adopted(
    service: Any, wire: Any, make_agent: Any, name: str
) -> None:
    agent = make_agent(name, name)
    with wire(service.enrol(name, name)) as line:
        reply = line.exchange(agent.full({"max_num_seqs": 10**9}))
        view = service.admin.node(name)
    assert "max_num_seqs" in reply.error_response.error_message
    assert view.desired_revision is None
    assert view.effective is not None
    assert view.effective.knobs == {"max_num_seqs": 10**9}


def test_an_agent_that_says_goodbye_is_not_connected(service: Any, wire: Any, make_agent: Any, name: str) -> None:
    agent = make_agent(name, name)
    with wire(service.enrol(name, name)) as line:
        line.exchange(agent.full())
        last = agent.message()
        last.agent_disconnect.SetInParent()
        line.exchange(last)
        assert not service.admin.node(name).connected


def test_unhealthy_components_are_named(service: Any, wire: Any, make_agent: Any, name: str) -> None:
    agent = make_agent(name, name)
    message = agent.full()
    message.health.healthy = False
    message.health.last_error = "degraded"
    message.health.component_health_map["spool"].healthy = False
    message.health.component_health_map["spool"].last_error = "disk full\x00"
    with wire(service.enrol(name, name)) as line:
        line.exchange(message)
        view = service.admin.node(name)
    assert (view.healthy, view.health_detail) == (False, "degraded; spool: disk full")


def test_an_admin_s_token_speaks_for_any_node(service: Any, wire: Any, make_agent: Any, name: str) -> None:
    agent = make_agent(name, name)
    with wire(service.token("admin-token")) as line:
        assert line.exchange(agent.full()).flags == 0
        assert line.exchange(agent.message()).flags == 0
        assert line.exchange(make_agent(name, name).message()).flags == REPORT_FULL_STATE
    assert service.admin.node(name).pool == name


# -- HTTP alone --------------------------------------------------------------------------------------------------------


@pytest.fixture
def post(service: Any, name: str) -> Any:
    token = service.enrol(name, name)

    def send(body: bytes, **headers: str) -> httpx.Response:
        given = {"Authorization": f"Bearer {token}", "Content-Type": "application/x-protobuf"}
        given |= {key.replace("_", "-"): value for key, value in headers.items()}
        return httpx.post(f"{service.url}/v1/opamp", content=body, headers=given)

    return send


def test_http_takes_gzip(post: Any, service: Any, make_agent: Any, name: str) -> None:
    body = gzip.compress(make_agent(name, name).full().SerializeToString())
    assert post(body, Content_Encoding="gzip").status_code == 200
    assert service.admin.node(name).connected


@pytest.mark.parametrize(
    ("body", "headers", "status", "field"),
    [
        (b"\xff\xff\xff\xff", {}, 400, "body"),
        (b"", {}, 400, "instance_uid"),
        (b"\x0a\x03abc", {}, 400, "instance_uid"),
        (b"no gzip", {"Content_Encoding": "gzip"}, 400, "body"),
        (gzip.compress(b"\x0a\x10" + b"u" * 16, mtime=0)[:-9], {"Content_Encoding": "gzip"}, 400, "body"),
        (b"", {"Content_Encoding": "br"}, 415, "Content-Encoding"),
        (b"{}", {"Content_Type": "application/json"}, 415, "Content-Type"),
        (b"\x00" * (2 << 20), {}, 413, "body"),
        (lambda: gzip.compress(b"\x00" * (64 << 20)), {"Content_Encoding": "gzip"}, 413, "body"),
    ],
)
def test_http_refuses_what_it_cannot_read(
    post: Any, body: bytes | Callable[[], bytes], headers: Any, status: int, field: str
) -> None:
    answer = post(body if isinstance(body, bytes) else body(), **headers)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["detail"]["field"] == field


def test_garbage_is_never_a_server_error(post: Any) -> None:
    drawn = random.Random(1)
    for size in range(0, 200, 23):
        assert post(drawn.randbytes(size)).status_code in (200, 400)


@pytest.mark.parametrize("token", ["", "tailwright_unknown"])
def test_an_unknown_token_is_refused_on_both_transports(service: Any, token: str) -> None:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    answer = httpx.post(f"{service.url}/v1/opamp", headers=headers | {"Content-Type": "application/x-protobuf"})
    assert answer.status_code == 401
    with pytest.raises(InvalidStatus) as refused:
        with connect(service.url.replace("http", "ws") + "/v1/opamp", additional_headers=headers):
            pass
    assert refused.value.response.status_code == 401
    assert json.loads(refused.value.response.body or b"")["error"]["code"] == "unauthenticated"


def test_a_database_that_is_away_is_a_503_on_the_socket_too(service: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> None:
        raise OperationalError("SELECT", {}, Exception("gone"))

    monkeypatch.setattr(token_cache, "authenticate_all", away)
    service.parts.tokens._lookups.clear()
    with pytest.raises(InvalidStatus) as refused:
        headers = {"Authorization": "Bearer tailwright_never_asked_for"}
        with connect(service.url.replace("http", "ws") + "/v1/opamp", additional_headers=headers):
            pass
    service.parts.tokens._lookups.clear()
    assert refused.value.response.status_code == 503
    assert json.loads(refused.value.response.body or b"")["error"]["code"] == "unavailable"


def test_a_token_of_another_scope_is_refused_on_both_transports(service: Any) -> None:
    headers = {"Authorization": f"Bearer {service.token('dashboard-token')}"}
    answer = httpx.post(f"{service.url}/v1/opamp", headers=headers | {"Content-Type": "application/x-protobuf"})
    assert answer.status_code == 403
    with pytest.raises(InvalidStatus) as refused:
        with connect(service.url.replace("http", "ws") + "/v1/opamp", additional_headers=headers):
            pass
    assert refused.value.response.status_code == 403


# -- WebSocket alone ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frame", [b"", b"\x01\x0a\x03abc", b"\x00\xff\xff\xff\xff", b"\x00", "text"])
def test_websocket_closes_on_what_it_cannot_read(service: Any, socket_wire: Any, name: str, frame: Any) -> None:
    with socket_wire(service.enrol(name, name)) as line:
        line.socket.send(frame)
        with pytest.raises(ConnectionClosed) as closed:
            line.receive()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code in (1003, 1007)


def test_a_text_that_is_no_utf8_is_one_line_in_the_log(
    service: Any, socket_wire: Any, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    door = service.server.service.door
    before = door.refused[Refused.WEBSOCKET_TEXT]
    with caplog.at_level(logging.WARNING), socket_wire(service.enrol(name, name)) as line:
        line.socket.send([b"\xe2", b"\x28\xa1"], text=True)  # One message in two frames.
        with pytest.raises(ConnectionClosed) as closed:
            line.receive()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1007
    assert [(one.message, one.exc_info) for one in caplog.records] == [
        ("closed a WebSocket of 127.0.0.1: a text that is no UTF-8", None)
    ]
    assert door.refused[Refused.WEBSOCKET_TEXT] == before + 1


def test_websocket_pushes_a_trial_configuration_at_once(
    service: Any, socket_wire: Any, make_agent: Any, name: str
) -> None:
    agent = make_agent(name, name, "trial")
    with socket_wire(service.enrol(name, name, "trial")) as line:
        line.exchange(agent.full({"max_num_seqs": 16}))
        for seqs in (21, 22):
            view = service.admin.set_trial_config(name, TrialConfig(knobs={"max_num_seqs": seqs}))
            pushed = line.receive().remote_config
            body = json.loads(pushed.config.config_map["engine.json"].body)
            assert body["revision"] == view.desired_revision
            assert body["knobs"]["max_num_seqs"] == seqs
            line.exchange(agent.status(pushed.config_hash, APPLIED))


def test_websocket_pushes_what_another_replica_has_written(
    service: Any, socket_wire: Any, make_agent: Any, name: str
) -> None:
    agent = make_agent(name, name)
    with socket_wire(service.enrol(name, name)) as line:
        line.exchange(agent.full({"max_num_seqs": 16}))
        number = production(service, name, max_num_seqs=23)  # Nobody pokes this hub.
        assert line.receive().remote_config.config_hash.startswith(f"{number}:".encode())


def test_websocket_of_a_revoked_token_is_closed(service: Any, socket_wire: Any, make_agent: Any, name: str) -> None:
    token = service.enrol(name, name)
    with socket_wire(token) as line:
        line.exchange(make_agent(name, name).full())
        service.enrol(name, name, old_token=token)
        with pytest.raises(ConnectionClosed):
            line.receive()


def test_a_closed_websocket_is_a_node_that_is_gone(
    service: Any, socket_wire: Any, make_agent: Any, name: str, eventually: Any
) -> None:
    token = service.enrol(name, name)
    agent = make_agent(name, name)
    with socket_wire(token) as first:
        first.exchange(agent.full())
        with socket_wire(token) as second:
            second.exchange(agent.message())
            # The node has moved to another connection: the end of the older one says nothing.
            with pytest.raises(ConnectionClosed):
                first.receive()
            first.socket.close()
            eventually(lambda: service.parts.fleet.connections == 1)
            assert service.admin.node(name).connected
    eventually(lambda: not service.admin.node(name).connected)
