"""A managed node as a user has it: a node file, an agent that starts vLLM from it, the local proxy for the clients."""

import asyncio
import json
import shutil
import time
from pathlib import Path
from typing import Any

from agents.backends.vllm.proxy.client import ProxyClient
from agents.backends.vllm.proxy.state import ProxyState
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.engine_rivals.servers import HOST, MODEL, free_port
from benchmarks.vllm_measures.plane import is_up
from benchmarks.vllm_measures.proc_files import MARK
from benchmarks.vllm_measures.processes import Child
from benchmarks.vllm_measures.session import Session
from benchmarks.vllm_measures.vllm_server import MAX_MODEL_LEN, START_LIMIT_S
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.bodies.rollouts import ENDED, Rollout, RolloutCreate

NODE, POOL = "managed", "managed"
CAPACITY = {"max_num_batched_tokens": 1024, "max_num_seqs": 8}
LIMITS = {"max_num_batched_tokens": 2048, "max_num_seqs": 32}
START: dict[str, Any] = {"max_num_batched_tokens": 1024, "prefill_chunk_size": 0, "max_num_seqs": 8}
_CHANGE_LIMIT_S = 600.0
_CUT_BYTES = 2**20


class ManagedNode:
    """One node of a pool of its own; `agent` is the process that runs now."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._folder = session.nursery.folder
        self.port = free_port()
        self._ports = [free_port(), free_port()]
        self._broken = cut_off(session.settings.model, self._folder / "broken-model")
        self.agent: Child | None = None

    def start(self, *, standby: bool, limit_s: float = START_LIMIT_S) -> NodeView:
        """A new agent on the old state; servers and proxy that run are adopted. Until the node is up."""
        path = self._folder / f"node-{'standby' if standby else 'alone'}.toml"
        path.write_text(self.node_file(standby), encoding="utf-8")
        flags = {"pool": POOL, "role": "serving", "vllm-node-file": str(path)}
        again = self.agent is not None
        self.agent = self._session.plane.agent(NODE, flags, restarted=again)
        return self._session.plane.await_node(NODE, self.agent, is_up, limit_s)

    def kill_agent(self) -> None:
        assert self.agent is not None
        self.agent.kill()
        self._session.stop(self.agent)

    def stop(self) -> None:
        """The agent, then the proxy and the servers that it leaves running."""
        if self.agent is not None:
            self._session.stop(self.agent)
        self._session.nursery.end_detached()

    def proxy(self) -> ProxyState:
        return asyncio.run(ProxyClient(self._folder / "run" / "proxy.sock").state())

    def view(self) -> NodeView:
        """Raises `WorkerFailed` when the control plane does not know it."""
        found = self._session.plane.node(NODE)
        if found is None:
            raise WorkerFailed(f"the control plane does not know the node {NODE}")
        return found

    def roll_out(self, knobs: dict[str, Any]) -> tuple[Rollout, float]:
        """An emergency rollout of the starting limits with these changes: how it ended, and seconds until then."""
        client = self._session.plane.client
        revision = client.create_config(RevisionCreate(knobs={**START, **knobs})).number
        began = time.monotonic()
        wanted = RolloutCreate(
            pool=POOL, revision=revision, emergency=True, reason="benchmark", apply_timeout_s=_CHANGE_LIMIT_S
        )
        rollout = client.create_rollout(wanted)
        while rollout.phase not in ENDED:
            if time.monotonic() - began > 2 * _CHANGE_LIMIT_S:
                raise WorkerFailed(f"the rollout of {knobs} has not ended: {rollout.phase}, {rollout.message}")
            time.sleep(0.1)
            rollout = client.rollout(rollout.id)
        return rollout, time.monotonic() - began

    def node_file(self, standby: bool) -> str:
        recipe = self._session.settings.recipe
        environment = {**recipe.environment, MARK: self._session.nursery.mark}
        arguments = ["--dtype", "float32", "--enforce-eager", "--max-model-len", str(MAX_MODEL_LEN)]
        tables: dict[str, dict[str, Any]] = {
            "environment": environment,
            "capacity": CAPACITY,
            "limits": LIMITS,
            "initial": {name: value for name, value in START.items()},
            "variants.none": {"model": str(recipe.model.absolute())},
            "variants.int8": {"model": str(self._broken)},
        }
        top: dict[str, Any] = {
            "executable": str(recipe.executable),
            "served_model_name": MODEL,
            "host": HOST,
            "port": self.port,
            "server_ports": self._ports,
            "arguments": [*arguments, "--disable-uvicorn-access-log"],
            "standby": "always" if standby else "never",
            "run_dir": str(self._folder / "run"),
        }
        # Texts, numbers and lists of them are written alike in JSON and TOML.
        lines = [f"{name} = {json.dumps(value)}" for name, value in top.items()]
        for table, values in tables.items():
            lines += [f"\n[{table}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
        return "\n".join(lines) + "\n"


def cut_off(model: Path, target: Path) -> Path:
    """A copy of the model whose weights end in the middle, as a download that broke off leaves them."""
    target.mkdir()
    for path in model.iterdir():
        if path.suffix == ".safetensors":
            with path.open("rb") as whole:
                (target / path.name).write_bytes(whole.read(min(_CUT_BYTES, path.stat().st_size // 2)))
        elif path.is_file():
            shutil.copy(path, target / path.name)
    return target
