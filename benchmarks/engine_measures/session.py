"""What every measure works with: the model, the sizes, the workers that are up, and the main engine's name."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.engine_measures.report import progress
from benchmarks.engine_measures.texts import Texts
from benchmarks.engine_rivals.protocol import Worker, WorkerFailed
from benchmarks.engine_rivals.vllm_environment import in_process_environment

MAIN = "main"
"""Our engine as it is measured against others: bfloat16, default options."""
MOST_STEP_TOKENS = 4096
"""Both the budget of a step and the longest sequence, for everyone who is measured in process."""


@dataclass(frozen=True)
class Settings:
    """What was asked for on the command line."""

    rounds: int
    threads: int
    seed: int
    vllm_python: str | None
    quick: bool
    trace: Path | None
    served_seconds: float
    device: str = "cpu"
    """Of our engine and transformers: cpu or cuda."""

    @property
    def cores(self) -> list[int]:
        """The cores that every contestant is bound to."""
        return sorted(os.sched_getaffinity(0))[: self.threads]


@dataclass
class Session:
    """One model's run. A worker that could not be had is None; `missing` tells why, by name."""

    settings: Settings
    model_dir: Path
    texts: Texts
    draft_dir: Path | None = None
    ours: Worker | None = None
    vllm: Worker | None = None
    transformers: Worker | None = None
    missing: dict[str, str] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def is_small(self) -> bool:
        """Whether a step takes a few milliseconds only, so that longer runs are affordable and needed."""
        return sum(path.stat().st_size for path in self.model_dir.glob("*.safetensors")) < 100 * 2**20

    @property
    def rounds(self) -> int:
        return self.settings.rounds

    def our_options(self, **changed: Any) -> dict[str, Any]:
        """`EngineOptions` of the main engine, with changes."""
        return {
            "model": str(self.model_dir),
            "dtype": "bfloat16",
            "device": self.settings.device,
            "threads": self.settings.threads,
            "max_model_len": self.longest,
            "kv_cache_memory_bytes": 2**30,
            **changed,
        }

    @property
    def longest(self) -> int:
        """Most tokens of a sequence here."""
        import json

        config = json.loads((self.model_dir / "config.json").read_text(encoding="utf-8"))
        return min(MOST_STEP_TOKENS, int(config["max_position_embeddings"]))

    def load_ours(self, name: str, knobs: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        """Another engine in our worker. Raises `WorkerFailed`."""
        assert self.ours is not None
        progress(f"loading our engine {name!r}")
        budget = {"max_num_batched_tokens": MOST_STEP_TOKENS}
        found: dict[str, Any] = self.ours.ask(
            "load", name=name, options=self.our_options(**options), knobs={**budget, **(knobs or {})}
        )
        return found

    def our_decode(self, name: str, prompts: list[list[int]], new_tokens: int) -> dict[str, Any]:
        assert self.ours is not None
        found: dict[str, Any] = self.ours.ask("decode", name=name, prompts=prompts, new_tokens=new_tokens)
        return found

    def start(self, rivals: bool) -> None:
        """Start our worker, and the rivals' when they are wanted; all load at once."""
        threads, cores = self._environment, self.settings.cores
        if rivals:
            self.transformers = Worker(
                "transformers", sys.executable, "benchmarks.engine_rivals.transformers_worker", threads, cores
            )
            self.transformers.send(
                "load",
                name=MAIN,
                model_dir=str(self.model_dir),
                dtype="bfloat16",
                threads=self.settings.threads,
                device=self.settings.device,
            )
            self._start_vllm(threads, cores)
        self._start_ours()
        for name in ("transformers", "vllm"):
            self._await(name)

    @property
    def _environment(self) -> dict[str, str]:
        return {"OMP_NUM_THREADS": str(self.settings.threads), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "0"}

    def _start_ours(self) -> None:
        self.ours = Worker(
            "ours", sys.executable, "benchmarks.engine_rivals.our_worker", self._environment, self.settings.cores
        )
        self.facts["ours"] = self.load_ours(MAIN)

    def _start_vllm(self, env: dict[str, str], cores: list[int]) -> None:
        python = self.settings.vllm_python
        if python is None:
            self.missing["vllm"] = "no interpreter: give --vllm-python or set TAILWRIGHT_VLLM_PYTHON"
            return
        env = {**env, **in_process_environment(python)}
        self.vllm = Worker("vLLM", python, "benchmarks.engine_rivals.vllm_worker", env, cores)
        self.vllm.send(
            "load",
            model_dir=str(self.model_dir),
            dtype="bfloat16",
            threads=self.settings.threads,
            max_tokens=self.longest,
        )

    def _await(self, name: str) -> None:
        worker: Worker | None = getattr(self, name)
        if worker is None:
            self.missing.setdefault(name, "not asked for by the chosen sections")
            return
        progress(f"waiting for {worker.name} to load")
        try:
            self.facts[name] = worker.receive()
        except WorkerFailed as error:
            self.missing[name] = str(error)
            progress(str(error))
            worker.close()
            setattr(self, name, None)

    def restart_ours(self) -> None:
        """A fresh worker with the main engine alone: after a failure nobody knows what the old one still held."""
        assert self.ours is not None
        self.ours.close()
        self._start_ours()

    def close_rivals(self) -> None:
        """Give their memory back; what follows measures our engine alone."""
        for name in ("vllm", "transformers"):
            worker: Worker | None = getattr(self, name)
            if worker is not None:
                worker.close()
                setattr(self, name, None)
                self.missing.setdefault(name, "its part is over")

    def close(self) -> None:
        self.close_rivals()
        if self.ours is not None:
            self.ours.close()
            self.ours = None


Measure = Callable[[Session], None]
