"""A canary whose control plane dies: real processes, and all but the engine are killed."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.demo.processes import Child
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.rollouts import RolloutCreate, RolloutPhase
from controlplane.fleet.opamp.session import CONFIG_LEFT
from tests.conftest import Stack
from tests.journeys.test_config import engine_config, production
from tests.processes import answers

pytestmark = pytest.mark.slow


@pytest.fixture
def own_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """With leases of five seconds."""
    monkeypatch.setenv("TAILWRIGHT_LEASE_S", "5")
    made = Stack(tmp_path / "data")
    try:
        made.start()
        yield made
    finally:
        made.stop()


def killed(stack: Stack, name: str) -> Child:
    """By SIGKILL, with nothing left of it."""
    child = next(one for one in stack.fleet.processes.children if one.name == name)
    child.process.kill()
    child.process.wait()
    stack.fleet.processes.children.remove(child)
    return child


def test_a_canary_that_is_cut_off_ends_with_its_lease(own_stack: Stack, wait_for: Callable[..., object]) -> None:
    stack = own_stack
    with stack.client() as client:
        base = production(client)
        wanted = client.create_config(RevisionCreate(knobs={"max_num_seqs": 7}, base=base)).number
        rollout = client.create_rollout(RolloutCreate(pool="demo", revision=wanted)).id
        wait_for("the canary is judged", lambda: client.rollout(rollout).phase is RolloutPhase.JUDGING)
    assert engine_config(stack)["revision"] == wanted
    killed(stack, "service")
    agent = killed(stack, "node-1-agent")
    stack.fleet.processes.start(agent.name, [str(part) for part in agent.process.args[1:]])  # type: ignore[union-attr,index]
    wait_for("the engine runs what is promoted", lambda: engine_config(stack)["revision"] == base)
    assert engine_config(stack)["knobs"]["max_num_seqs"] != 7
    stack.fleet.start_service()
    wait_for("the service is ready", lambda: answers(f"{stack.url}/readyz"))
    with stack.client() as client:

        def ended() -> bool:
            return client.rollout(rollout).phase is RolloutPhase.ROLLED_BACK

        wait_for("the rollout has ended", ended)
        assert "left it: lease ended" in client.rollout(rollout).message
        told = client.ledger(subject="node/node-1")
        assert [entry.evidence["revision"] for entry in told if entry.kind == CONFIG_LEFT] == [wanted]
