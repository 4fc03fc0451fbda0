"""Real vLLM servers as the demo's engines, each with Tailwright's plugin, its agent attached to it.

What they are started with is what the guide for vLLM recommends, and two things that two cores need: one OpenMP thread
each, and the worker inside the engine's process (`VLLM_ENABLE_V1_MULTIPROCESSING=0`), for as a process of its own it
spins on a core for a second after each step (vllm/distributed/device_communicators/shm_broadcast.py, SpinCondition).
"""

import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path

from agents.backends.vllm.doctor.folder import EVENTS, KNOBS, LONGEST_SOCKET
from agents.backends.vllm.doctor.installation import InstallationMissing, examine, plugin_version
from agents.backends.vllm.server_variables import OFFLINE, sharing_cores
from agents.demo.plan import Plan, VllmServers
from agents.demo.processes import Child, Processes
from controlplane.contract.errors import BadRequest, Conflict
from controlplane.terminal.child import one_thread_each

STAGES = (
    ("Resolved architecture", "loading its engine"),
    ("Initializing a V1 LLM engine", "its engine starts"),
    ("Starting to load model", "loading weights"),
    ("Loading weights took", "making the KV cache"),
    ("init engine (profile", "warmed up"),
    ("Starting vLLM server", "its server starts"),
    ("Application startup complete", ""),
)
"""What vLLM's log says on the way up, in its order, and what that means; at the last it serves."""


class VllmEngines:
    """One server process for each node, the executable's environment has the plugin."""

    def __init__(self, plan: Plan, servers: VllmServers) -> None:
        self._plan, self._servers = plan, servers
        self._children: dict[str, Child] = {}

    def check(self) -> None:
        """Raises `InstallationMissing`, `BadRequest` or `Conflict` when the servers could not start or be tuned."""
        found = examine(self._servers.executable)
        mend = f"run `make vllm`, or `{found.python} -m pip install agents/vllm_plugin` in the checkout"
        if found.vllm is None:
            raise InstallationMissing(f"--vllm: {found.prefix} has no vLLM; run `make vllm`", field="vllm")
        if found.plugin is None or found.entry_point is None:
            raise InstallationMissing(f"--vllm: {found.prefix} lacks the plugin tailwright-vllm; {mend}", field="vllm")
        if found.plugin != (wanted := plugin_version()):
            raise InstallationMissing(
                f"--vllm: the plugin in {found.prefix} is version {found.plugin}, not {wanted}; {mend}", field="vllm"
            )
        longest = max(len(os.fsencode(self._folder(node) / EVENTS)) for node in ("node-1", "trial-1"))
        if longest > LONGEST_SOCKET:
            raise BadRequest(
                f"--data-dir: a socket's path may have {LONGEST_SOCKET} bytes, here it would have {longest}; "
                "give a shorter one",
                field="data_dir",
            )
        for port in (*self._plan.engine_ports, self._plan.trial_port):
            _need_free(port)

    def start(self, processes: Processes, node: str, port: int) -> None:
        folder = self._folder(node)
        folder.mkdir(mode=0o700, parents=True)
        # What an agent would have left there before: the limits that the scheduler is to begin with.
        (folder / KNOBS).write_text(json.dumps({"revision": 0, "knobs": self._plan.good}))
        command = [str(self._servers.executable), "serve", *self._arguments(port)]
        # Not in the checkout: the engine's process looks for modules in its working folder first.
        self._children[node] = processes.start_program(
            f"{node}-engine", command, cwd=folder, environment=self._environment(folder)
        )

    def agent_flags(self, node: str) -> Sequence[str]:
        return ("--backend", "vllm", "--vllm-dir", str(self._folder(node)))

    def news(self) -> str:
        """Each server that does not serve yet, with the last thing that its log says of the way up."""
        found = {node: stage(child.log) for node, child in self._children.items()}
        return ", ".join(f"{node}: {now}" for node, now in found.items() if now)

    def _folder(self, node: str) -> Path:
        """What the plugin and the agent of one node share; not the agent's state folder, which it owns alone."""
        return self._plan.data_dir / "vllm" / node

    def _arguments(self, port: int) -> list[str]:
        plan, servers = self._plan, self._servers
        drafts = {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4}
        return [
            *(str(plan.model_dir), "--served-model-name", plan.model_dir.name),
            *("--host", "127.0.0.1", "--port", str(port)),
            *("--dtype", servers.dtype, "--enforce-eager", "--max-model-len", str(servers.max_model_len)),
            *("--kv-cache-memory-bytes", f"{plan.kv_cache_mib}M", "--enable-prefix-caching"),
            *("--scheduler-cls", "tailwright_vllm.scheduler.live_scheduler"),
            # The capacities, up to which limits move while it serves.
            *("--max-num-batched-tokens", str(servers.capacity_tokens), "--max-num-seqs", str(servers.capacity_seqs)),
            *("--speculative-config", json.dumps({**drafts, "num_speculative_tokens": servers.capacity_drafts})),
        ]

    def _environment(self, folder: Path) -> dict[str, str]:
        # VLLM_CPU_KVCACHE_SPACE would go before --kv-cache-memory-bytes; PYTHONPATH is this environment's, if any.
        left_out = ("VLLM_CPU_KVCACHE_SPACE", "PYTHONPATH")
        return {
            **{name: value for name, value in one_thread_each().items() if name not in left_out},
            "TAILWRIGHT_VLLM_DIR": str(folder),
            **sharing_cores(threads=1),
            **OFFLINE,
            "VLLM_SERVER_DEV_MODE": "1",  # So that the tuner can empty the prefix cache between two replays.
        }


def stage(log: Path) -> str:
    """How far a server is by its log; empty once it serves."""
    text = log.read_text(errors="replace") if log.exists() else ""
    passed = [meaning for sign, meaning in STAGES if sign in text]
    return passed[-1] if passed else "loading vLLM"


def _need_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise Conflict(
                f"--engine-ports: port {port}: {error.strerror}; name others", field="engine_ports"
            ) from error
