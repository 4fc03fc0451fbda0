"""A node file: can the agent start what it names, on these ports, and is there room for a standby?"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agents.backends.vllm.doctor import listeners
from agents.host.process import tree
from controlplane.terminal.doctor_finding import Finding

if TYPE_CHECKING:
    from agents.backends.vllm.node_file import NodeFile


OURS = re.compile(r"(^|[/ ])vllm serve( |$)|^VLLM::|-m agents\.backends\.vllm\.proxy( |$)")
"""The command lines of what an agent starts: vLLM's server, as called or as it names its processes, and the proxy."""


def load(path: Path) -> "NodeFile":
    """Raises `BadSettings` that names the field."""
    from agents.backends.vllm.node_file import load_node_file

    return load_node_file(path)


def findings(path: Path, node: "NodeFile") -> Iterator[Finding]:
    yield Finding("node file", True, str(path))
    for format_, variant in node.variants.items():
        if Path(variant.model).is_absolute():
            there = Path(variant.model).is_dir()
            told = variant.model if there else f"{variant.model} is no folder"
            yield Finding(f"model, {format_}", there, told, f"set variants.{format_}.model")
        else:
            told = f"{variant.model}, by name: vLLM loads it, or finds it in its cache"
            yield Finding(f"model, {format_}", True, told)
    for port, what in ((node.port, "clients"), (node.server_ports[0], "server"), (node.server_ports[1], "standby")):
        yield _port(port, what)
    yield from _standby(node)


def running(node: "NodeFile") -> int | None:
    """The process of the server that an agent has started from this file, if one runs."""
    pids = (listeners.listener(port) for port in node.server_ports)
    return next((pid for pid in pids if pid is not None), None)


def _port(port: int, what: str) -> Finding:
    name = f"port {port}, {what}"
    if not listeners.listens("127.0.0.1", port):
        return Finding(name, True, "free")
    pid = listeners.listener(port)
    held = "held by somebody whose process cannot be seen" if pid is None else f"held by process {pid}"
    command = listeners.command_line(pid) if pid is not None else None
    ours = command is not None and OURS.search(command) is not None
    told = f"{held}{f': {command[:100]}' if command else ''}"
    return Finding(name, ours, told, "if no agent of this node runs: stop it, or choose other ports in the node file")


def _standby(node: "NodeFile") -> Iterator[Finding]:
    from agents.backends.vllm.managed.change_plan import standby_allowed
    from agents.backends.vllm.managed.memory import room
    from agents.backends.vllm.node_file import StandbyUse

    pid = running(node)
    if node.standby is StandbyUse.AUTO and node.standby_needs_bytes is None and pid is None:
        told = "decided when a server runs, by what it uses; standby_needs_bytes in the node file says it before"
        yield Finding("standby", True, told)
        return
    pids = [] if pid is None else tree([pid])
    allowed, why = standby_allowed(node.standby, room(node.standby_needs_bytes, pids))
    mend = "requests wait while vLLM restarts; give the machine more memory, or set standby_needs_bytes"
    yield Finding("standby", allowed, why, mend, needed=False)
