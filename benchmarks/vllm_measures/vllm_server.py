"""A vLLM server as the benchmark starts it: with Tailwright inside, or as it comes.

Threads are few (one for the model by default): on a small machine the server process, the scheduler's process and the
load share the cores. Everything else is vLLM's own default for a CPU.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.backends.vllm.server_variables import sharing_cores
from benchmarks.engine_rivals.servers import HOST, MODEL, free_port
from benchmarks.engine_rivals.vllm_environment import common_environment
from benchmarks.vllm_measures.processes import Child, Nursery

RAW_LOG_FOLDER = Path(__file__).resolve().parent / "raw_log"
SCHEDULER = "tailwright_vllm.scheduler.live_scheduler"
MAX_NUM_SEQS, MAX_NUM_BATCHED_TOKENS, MAX_MODEL_LEN, DRAFTS = 16, 1024, 1024, 8
START_LIMIT_S = 600.0
_NGRAM = {"method": "ngram", "num_speculative_tokens": DRAFTS, "prompt_lookup_max": 4, "prompt_lookup_min": 2}


@dataclass(frozen=True)
class Recipe:
    """What every server of a run has in common."""

    python: str
    model: Path
    threads: int

    @property
    def executable(self) -> Path:
        # Not resolved: a virtual environment's interpreter is a link.
        return Path(self.python).absolute().parent / "vllm"

    @property
    def environment(self) -> dict[str, str]:
        path = os.pathsep.join(filter(None, (str(RAW_LOG_FOLDER), os.environ.get("PYTHONPATH"))))
        return {**common_environment(self.python), **sharing_cores(self.threads), "PYTHONPATH": path}

    @property
    def arguments(self) -> list[str]:
        """Without the port."""
        return [
            "serve", str(self.model), "--served-model-name", MODEL, "--dtype", "float32", "--enforce-eager",
            "--max-model-len", str(MAX_MODEL_LEN), "--max-num-seqs", str(MAX_NUM_SEQS),
            "--max-num-batched-tokens", str(MAX_NUM_BATCHED_TOKENS), "--host", HOST, "--disable-uvicorn-access-log",
        ]  # fmt: skip


class VllmServer:
    """One server on a port of its own. `share` is the folder shared with an agent, None for a server as it comes."""

    def __init__(self, nursery: Nursery, recipe: Recipe, name: str, *, tailwright: bool, drafts: bool) -> None:
        folder = nursery.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        self.name = name
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        self.share = folder / "share" if tailwright else None
        self.raw_log = folder / "raw.jsonl"
        command = [str(recipe.executable), *recipe.arguments, "--port", str(self.port)]
        env = {**recipe.environment, "VLLM_RAW_LOG": str(self.raw_log)}
        if self.share is not None:
            command += ["--scheduler-cls", SCHEDULER]
            env["TAILWRIGHT_VLLM_DIR"] = str(self.share)
        if drafts:
            command += ["--speculative-config", json.dumps(_NGRAM)]
        self.record(False)
        self.child: Child = nursery.start(f"vllm-{name}", command, env)

    def wait_healthy(self) -> None:
        """Raises `WorkerFailed`."""
        self.child.wait_healthy(f"{self.url}/health", START_LIMIT_S)

    def record(self, wanted: bool) -> None:
        """Have the raw log written, or not."""
        off = self.raw_log.with_name(self.raw_log.name + ".off")
        if wanted:
            off.unlink(missing_ok=True)
        else:
            off.touch()

    def effective(self) -> dict[str, Any]:
        """What the plugin's scheduler says it runs; empty while it has said nothing."""
        assert self.share is not None
        try:
            told: dict[str, Any] = json.loads((self.share / "effective.json").read_bytes())
        except (OSError, ValueError):
            return {}
        return told
