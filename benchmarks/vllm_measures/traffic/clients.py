"""A closed loop of clients (`load.py`) as a process of its own, begun and ended by the benchmark."""

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.engine_measures.texts import Pieces
from benchmarks.engine_rivals.protocol import ROOT, WorkerFailed
from benchmarks.engine_rivals.servers import HOST, MODEL
from benchmarks.vllm_measures.processes import Nursery
from controlplane.terminal.child import die_with_parent

TIMEOUT_S = 180.0
"""After which a request counts as failed."""
_END_S = 300.0


@dataclass(frozen=True)
class Served:
    """What became of a load; times in seconds since `began` (Unix seconds)."""

    requests: list[dict[str, Any]]
    wall_s: float
    began: float
    cpu_s: float

    @property
    def failed(self) -> list[str]:
        """Why, for each request that failed."""
        return [one["error"] for one in self.requests if one["error"] is not None]

    @property
    def tokens(self) -> int:
        return sum(one["tokens"] for one in self.requests)

    @property
    def longest_first_token_s(self) -> float:
        """Of those that did not fail, the longest time from sending to the first token."""
        return max((one["ttft_s"] for one in self.requests if one["error"] is None and one["ttft_s"]), default=0.0)

    @property
    def summary(self) -> str:
        told = f"{len(self.failed)} of {len(self.requests)}"
        return told + (f" ({self.failed[0][:120]})" if self.failed else "")


class Clients:
    """Running clients. `total`: end after so many requests; None: when `stop` is called."""

    def __init__(
        self,
        nursery: Nursery,
        port: int,
        prompts: Sequence[dict[str, Any]],
        *,
        clients: int,
        seed: int,
        think_s: float = 0.0,
        total: int | None = None,
    ) -> None:
        plan = {
            "host": HOST, "port": port, "model": MODEL, "timeout_s": TIMEOUT_S, "clients": clients,
            "think_s": think_s, "seed": seed, "prompts": list(prompts), "total": total,
        }  # fmt: skip
        self._log = nursery.folder / "load.log"
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.vllm_measures.traffic.load"],
                cwd=ROOT,
                env=nursery.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                preexec_fn=die_with_parent,
            )
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(plan).encode())
        self._process.stdin.close()
        self._process.stdin = None

    def stop(self) -> Served:
        """Send nothing new, wait for what runs. Raises `WorkerFailed`."""
        self._process.send_signal(signal.SIGTERM)
        return self.wait()

    def end(self) -> None:
        """At once; what runs is lost."""
        self._process.kill()
        self._process.communicate()

    def wait(self) -> Served:
        """Until the last request has ended. Raises `WorkerFailed`."""
        try:
            told, _ = self._process.communicate(timeout=_END_S)
        except subprocess.TimeoutExpired as error:
            self.end()
            raise WorkerFailed(f"the load did not end within {_END_S:g} s") from error
        if self._process.returncode:
            raise WorkerFailed(f"the load ended with {self._process.returncode}: {self._log.read_text()[-500:]}")
        return Served(**json.loads(told))


def requests(pieces: Pieces, shapes: Sequence[tuple[int, int]]) -> list[dict[str, Any]]:
    """A prompt nobody has seen for each (prompt tokens, new tokens)."""
    return [{"prompt": pieces.take(prompt), "max_tokens": new} for prompt, new in shapes]
