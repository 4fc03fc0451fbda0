"""A control plane and agents as a user starts them: `tailwright up`, `python -m agents`."""

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import httpx

from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.engine_rivals.servers import HOST, free_port
from benchmarks.vllm_measures.processes import Child, Nursery
from controlplane.client import Client
from controlplane.contract.bodies.nodes import NodeView
from controlplane.contract.errors import TailwrightError
from controlplane.terminal.child import one_thread_each

POOL = "bench"
_START_S = 60.0
_NODE_S = 60.0


class Plane:
    """One control plane on an empty data folder, without tuner and dashboard."""

    def __init__(self, nursery: Nursery, options: Sequence[str] = ()) -> None:
        """options: of `tailwright up` besides."""
        self._nursery = nursery
        self._data = nursery.folder / "plane"
        port = free_port()
        self.url = f"http://{HOST}:{port}"
        command = [sys.executable, "-m", "controlplane.command.main", "up", "--data-dir", str(self._data)]
        command += ["--host", HOST, "--port", str(port), "--no-tuner", "--no-dashboard", *options]
        self.child = nursery.start("plane", command, one_thread_each())
        self.child.wait_healthy(f"{self.url}/readyz", _START_S)
        self.client = Client(self.url, (self._data / "admin-token").read_text(encoding="utf-8").strip())

    def agent(self, node: str, flags: dict[str, str], *, restarted: bool = False) -> Child:
        """An agent of this plane, a trial node; `restarted` tells its log apart, its state is the old one."""
        given = {
            "node": node,
            "pool": POOL,
            "role": "trial",
            "server-url": self.url,
            "state-dir": str(self._nursery.folder / f"agent-{node}"),
            "enrolment-token-file": str(self._data / "enrolment-token"),
            "backend": "vllm",
            "watch-interval-s": "1",
            **flags,
        }
        command = [sys.executable, "-m", "agents.agent"]
        command += [part for name, value in given.items() for part in (f"--{name}", value)]
        return self._nursery.start(f"agent-{node}{'-again' if restarted else ''}", command, one_thread_each())

    def node(self, node: str) -> NodeView | None:
        """None while it is not known, or the plane does not answer."""
        try:
            return self.client.node(node)
        except (TailwrightError, httpx.HTTPError):
            return None

    def await_node(
        self, node: str, agent: Child, until: Callable[[NodeView], bool], limit_s: float = _NODE_S
    ) -> NodeView:
        """Until the node is as wanted. Raises `WorkerFailed` with what it says of itself and its agent's last lines."""
        end = time.monotonic() + limit_s
        seen: NodeView | None = None
        while time.monotonic() < end:
            if not agent.is_alive:
                raise WorkerFailed(f"{agent.name} ended; its log ends:\n{agent.log_end()}")
            if (seen := self.node(node)) is not None and until(seen):
                return seen
            time.sleep(0.2)
        raise WorkerFailed(f"node {node} after {limit_s:g} s: {seen}; its agent's log ends:\n{agent.log_end()}")


def is_up(view: NodeView) -> bool:
    return view.connected and view.healthy and view.effective is not None


def attached(url: str, share: Path | None, **more: Any) -> dict[str, str]:
    """Flags of an agent attached to a running server; without the plugin when `share` is None."""
    flags = {"engine-url": url, **{name.replace("_", "-"): str(value) for name, value in more.items()}}
    return flags if share is None else {**flags, "vllm-dir": str(share)}
