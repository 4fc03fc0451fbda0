"""The demo's processes: started with a log each, watched, and ended with the demo whatever ends it.

Guarantee: no child outlives the demo (the kernel tells each when its parent dies, where it can), and a child that dies
early is noticed with the last lines of its log.
"""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agents.host.host_memory import proportional_bytes
from agents.host.process import tree
from controlplane.terminal.checkout import ROOT
from controlplane.terminal.child import die_with_parent, one_thread_each


class ChildDied(Exception):
    """A process of the demo ended by itself. The message has the end of its log."""


@dataclass
class Child:
    name: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def log_end(self, lines: int = 12) -> str:
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])


@dataclass
class Processes:
    """Children in the order they were started. Threads of numeric libraries are held to one each."""

    log_dir: Path
    children: list[Child] = field(default_factory=list)

    def start(self, name: str, arguments: Sequence[str]) -> Child:
        """Start `python -m ...` (arguments after the interpreter) in the checkout."""
        return self.start_program(name, [sys.executable, *arguments], cwd=ROOT, environment=one_thread_each())

    def start_program(self, name: str, command: Sequence[str], *, cwd: Path, environment: Mapping[str, str]) -> Child:
        """Start any program, with this environment and no other, as the leader of a process group of its own."""
        self.log_dir.mkdir(parents=True, exist_ok=True)
        log = self.log_dir / f"{name}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=cwd,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # The demo's own terminal sends its interrupt to the demo alone, which then ends the children in order.
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        child = Child(name, process, log)
        self.children.append(child)
        return child

    def check(self) -> None:
        """Raises `ChildDied` for the first child that has ended."""
        for child in self.children:
            status = child.process.poll()
            if status is not None:
                raise ChildDied(f"{child.name} ended with status {status}; its log ends:\n{child.log_end()}")

    def resident_bytes(self) -> int:
        """Proportional memory of the demo and its children (pages that are shared count once)."""
        return proportional_bytes(tree([os.getpid()]))

    def stop(self, grace_s: float = 10.0) -> None:
        """End every child, the last started first: SIGTERM, after `grace_s` SIGKILL, then what it left behind."""
        for child in reversed(self.children):
            if child.process.poll() is None:
                child.process.terminate()
        for child in reversed(self.children):
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(grace_s)
            # Processes that it started are in its group still: a vLLM server's engine is one, and may be stuck.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.process.pid, signal.SIGKILL)
            child.process.wait()
        self.children.clear()
