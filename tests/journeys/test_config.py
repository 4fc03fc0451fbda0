"""The path of one configuration, end to end in real processes: revision, rollout, OpAMP, agent, engine, and back."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from agents.host.engine_socket import engine_socket
from controlplane.client import Client
from controlplane.command.pools.rehearsal import REASON, rehearse
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import NodeView, TrialConfig
from controlplane.contract.bodies.rollouts import ENDED, Rollout, RolloutCreate, RolloutPhase, Verdict
from controlplane.contract.errors import BadRequest, Conflict, Forbidden, NotFound, Unauthenticated


@pytest.fixture
def client(stack: Any) -> Iterator[Client]:
    with stack.client() as opened:
        yield opened


def engine_config(stack: Any) -> Any:
    """What the engine itself says that it runs."""
    path = engine_socket(int(stack.engine_url.rpartition(":")[2]))
    with httpx.Client(base_url="http://engine", transport=httpx.HTTPTransport(uds=str(path))) as control:
        return control.get("/config").json()


def node_of(client: Client) -> NodeView:
    return next(node for node in client.nodes() if node.pool == "demo")


def production(client: Client) -> int:
    node = node_of(client)
    assert node.effective is not None
    return node.desired_revision or node.effective.revision


def ended(client: Client, rollout: Rollout, wait_for: Any) -> Rollout:
    wait_for("the rollout ends", lambda: client.rollout(rollout.id).phase in ENDED, 60)
    return client.rollout(rollout.id)


def test_an_emergency_change_is_in_force_and_says_that_nobody_judged_it(
    stack: Any, client: Client, wait_for: Any
) -> None:
    base = production(client)
    revision = client.create_config(RevisionCreate(knobs={"max_num_seqs": 7}, base=base, note="journey"))
    rollout = client.create_rollout(
        RolloutCreate(pool="demo", revision=revision.number, emergency=True, reason="journey of a configuration")
    )
    done = ended(client, rollout, wait_for)
    assert (done.phase, done.verdict) == (RolloutPhase.PROMOTED, Verdict.UNJUDGED)
    # The engine itself, asked directly, and the control plane's view of it agree.
    assert engine_config(stack)["knobs"]["max_num_seqs"] == 7
    effective = node_of(client).effective
    assert effective is not None and effective.revision == revision.number
    assert effective.knobs["max_num_seqs"] == 7
    kinds = [entry.kind for entry in client.ledger(subject=f"rollout/{rollout.id}")]
    assert "rollout.created" in kinds and "rollout.promoted" in kinds


def test_a_configuration_the_engine_refuses_is_rolled_back_wholly(stack: Any, client: Client, wait_for: Any) -> None:
    base = production(client)
    before = engine_config(stack)["knobs"]
    revision = client.create_config(RevisionCreate(knobs={"quantization": "fp8", "max_num_seqs": 3}, base=base))
    rollout = client.create_rollout(
        RolloutCreate(
            pool="demo",
            revision=revision.number,
            emergency=True,
            reason="the engine cannot do this",
            apply_timeout_s=20,
        )
    )
    done = ended(client, rollout, wait_for)
    assert done.phase is RolloutPhase.ROLLED_BACK
    assert "fp8" in done.message or "quantization" in done.message
    wait_for("the old knobs are in force", lambda: engine_config(stack)["knobs"] == before)
    assert production(client) == base
    assert stack.complete("after = 1\n", 4).status_code == 200


def test_a_rollback_is_rehearsed(stack: Any, client: Client) -> None:
    before, base = engine_config(stack)["knobs"], production(client)
    found = rehearse(client, "demo", {"max_num_seqs": 5}, 60)
    assert found.proved, found
    assert engine_config(stack)["knobs"] == before and production(client) == base
    told = client.rollout(found.rollout)
    assert (told.phase, told.spec.reason) == (RolloutPhase.ROLLED_BACK, REASON)
    ran = client.config(told.spec.revision).knobs
    assert ran.max_num_seqs == 5, "another configuration was there meanwhile"


def test_equal_knobs_are_the_same_revision(client: Client) -> None:
    base = production(client)
    first = client.create_config(RevisionCreate(knobs={"max_num_seqs": 9}, base=base))
    again = client.create_config(RevisionCreate(knobs={"max_num_seqs": 9}, base=base))
    assert (first.number, first.hash) == (again.number, again.hash)


def test_bad_input_is_a_4xx_that_names_the_field(stack: Any, client: Client) -> None:
    with pytest.raises(BadRequest) as unknown:
        client.create_config(RevisionCreate(knobs={"max_num_sequences": 9}))
    assert unknown.value.code == "unknown_knob"
    assert unknown.value.detail["field"] == "knobs.max_num_sequences"
    with pytest.raises(BadRequest) as beyond:
        client.create_config(RevisionCreate(knobs={"max_num_batched_tokens": 0}))
    assert beyond.value.code == "knob_out_of_range"
    assert beyond.value.detail["field"] == "knobs.max_num_batched_tokens"
    with pytest.raises((NotFound, BadRequest)) as missing:
        client.create_rollout(RolloutCreate(pool="demo", revision=99999))
    assert missing.value.detail["field"] == "revision"
    with pytest.raises((NotFound, BadRequest)) as pool:
        client.create_rollout(RolloutCreate(pool="nowhere", revision=production(client)))
    assert pool.value.detail["field"] == "pool"
    with pytest.raises(Conflict):
        client.set_trial_config("node-1", TrialConfig(knobs={"max_num_seqs": 2}))
    with Client(stack.url, "no-such-token") as stranger, pytest.raises(Unauthenticated):
        stranger.nodes()
    with stack.client("dashboard-token") as reader, pytest.raises(Forbidden):
        reader.create_config(RevisionCreate(knobs={}))
    with stack.client("tuner-token") as operator, pytest.raises(Forbidden):
        operator.create_rollout(RolloutCreate(pool="demo", revision=1, emergency=True, reason="not an admin"))


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"model": "nobody"}, 404, "model"),
        ({"prompt": "x " * 5000}, 400, "prompt"),
        ({"max_tokens": -1}, 400, "max_tokens"),
        ({"temperature": "warm"}, 400, "temperature"),
    ],
)
def test_the_engine_names_what_is_wrong_with_a_request(
    stack: Any, change: dict[str, object], status: int, field: str
) -> None:
    body = {"model": "tailwright-py-5m", "prompt": "x = 1", "max_tokens": 4, **change}
    answer = httpx.post(f"{stack.engine_url}/v1/completions", json=body, timeout=30)
    assert answer.status_code == status
    assert answer.json()["error"]["detail"]["field"] == field
