"""The seam between the demo and the engines behind its nodes: how one is started, and what its agent has to know."""

import json
from collections.abc import Sequence
from typing import Protocol

from agents.demo.plan import Plan
from agents.demo.processes import Child, Processes

TAILWRIGHT = ("-m", "controlplane.command.main")
SERVES = "Uvicorn running"
"""What the log of an embedded engine says once it answers."""


class Engines(Protocol):
    """All engines of one demo.

    Invariants of every implementation:
    - `check` starts and writes nothing. It raises a named error, with the mend, when no engine could run here.
    - `start` returns at once; the engine then runs the plan's good configuration, and ends with `processes`.
    - `news` says how far the engines are that were started and do not serve yet; empty when there is nothing to tell.
    """

    def check(self) -> None: ...

    def start(self, processes: Processes, node: str, port: int) -> None: ...

    def agent_flags(self, node: str) -> Sequence[str]: ...

    def news(self) -> str: ...


class EmbeddedEngines:
    """Tailwright's own torch engine, in this environment."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._children: list[Child] = []

    def check(self) -> None:
        """Nothing to do: the command has looked for the parts it needs."""

    def start(self, processes: Processes, node: str, port: int) -> None:
        plan = self._plan
        knobs = [word for name, value in plan.good.items() for word in ("--set", f"{name}={json.dumps(value)}")]
        engine = ["--model", str(plan.model_dir), "--host", "127.0.0.1", "--port", str(port)]
        engine += ["--threads", "1", "--kv-cache-memory-bytes", f"{plan.kv_cache_mib}M", "--quantizations", "none,int8"]
        if plan.draft_dir.exists():
            engine += ["--draft-model", str(plan.draft_dir)]
        self._children.append(processes.start(f"{node}-engine", [*TAILWRIGHT, "engine", *engine, *knobs]))

    def agent_flags(self, node: str) -> Sequence[str]:
        return ()

    def news(self) -> str:
        """What each engine that does not serve yet said last: building kernels takes a while on a new machine."""
        ends = {child.name: child.log_end(1) for child in self._children if SERVES not in child.log_end(100)}
        return ", ".join(f"{name}: {end}" for name, end in ends.items() if end)
