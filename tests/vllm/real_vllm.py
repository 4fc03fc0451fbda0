"""A real `vllm serve` of its own process group, for the tests; and requests to it, timed by the client.

Where the environment lies: TAILWRIGHT_VLLM_ENV, else .venv-vllm in the checkout (`make vllm` builds it).
The model: TAILWRIGHT_TEST_VLLM_MODEL, else the bundled one. One whose begin-of-text token must come first (Gemma) gets
it: prompts go as token ids, from the model's own tokenizer.
TAILWRIGHT_TEST_VLLM_WRAP: a command put before each `vllm serve`, for machines that are shared (`nice`, say).
"""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from httpx_sse import EventSource
from tokenizers import Tokenizer

from agents.backends.vllm.server_variables import OFFLINE, sharing_cores
from tests.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = Path(os.environ.get("TAILWRIGHT_VLLM_ENV") or ROOT / ".venv-vllm").absolute()
MODEL_DIR = Path(os.environ.get("TAILWRIGHT_TEST_VLLM_MODEL") or ROOT / "agents/models/tailwright-py-5m").absolute()
RAW_LOG = ROOT / "benchmarks/vllm_measures/raw_log"
"""Put on PYTHONPATH, it makes vLLM log its own values: the truth that ours are measured by."""
MODEL = "m"
SCHEDULER = "tailwright_vllm.scheduler.live_scheduler"
DRAFTS = 8
MAX_NUM_SEQS = 16
MAX_NUM_BATCHED_TOKENS = 1024
MAX_MODEL_LEN = 1024
START_LIMIT_S = 420.0
_STOP_S = 30.0
_CALLERS = 8


def vllm_arguments(*, drafts: int = DRAFTS) -> list[str]:
    """What the tests serve with, unless they say otherwise: small, exact (float32), and with room for live limits."""
    speculation = {
        "method": "ngram", "num_speculative_tokens": drafts, "prompt_lookup_max": 4, "prompt_lookup_min": 2
    }  # fmt: skip
    made = ["--served-model-name", MODEL, "--dtype", "float32", "--enforce-eager", "--host", "127.0.0.1"]
    made += ["--max-model-len", str(MAX_MODEL_LEN), "--max-num-seqs", str(MAX_NUM_SEQS)]
    made += ["--max-num-batched-tokens", str(MAX_NUM_BATCHED_TOKENS), "--scheduler-cls", SCHEDULER]
    return made + (["--speculative-config", json.dumps(speculation)] if drafts else [])


def vllm_environment() -> dict[str, str]:
    """The variables of a small server on a few cores, shared with others; without the plugin's folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TAILWRIGHT_", "VLLM_"))}
    return {
        **kept,
        **sharing_cores(threads=1),
        **OFFLINE,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_SERVER_DEV_MODE": "1",
    }


@dataclass(frozen=True)
class Answer:
    """One streamed completion as its client saw it. Seconds; `first_s` is None when no text came."""

    status: int
    request_id: str
    text: str
    prompt_tokens: int
    output_tokens: int
    first_s: float | None
    whole_s: float
    error: str = ""

    @property
    def failed(self) -> bool:
        return self.status != 200 or bool(self.error)


class VllmServer:
    """One server. `folder` is what it shares with an agent (None: the plugin is idle); `raw_log` its own raw values.

    `environment`: more variables, and of the usual ones those that it goes without (None).
    """

    def __init__(
        self,
        home: Path,
        *,
        arguments: Sequence[str] = (),
        model_dir: Path = MODEL_DIR,
        environment: Mapping[str, str | None] | None = None,
        plugin: bool = True,
        port: int | None = None,
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = home / "vllm.log"
        self.folder = home / "share"
        self.raw_log = home / "raw.jsonl"
        self._command = [*shlex.split(os.environ.get("TAILWRIGHT_TEST_VLLM_WRAP", ""))]
        self._command += [str(ENVIRONMENT / "bin/vllm"), "serve", str(model_dir)]
        self._command += [*(arguments or vllm_arguments()), "--port", str(self.port)]
        variables: dict[str, str | None] = {
            **vllm_environment(),
            **({"TAILWRIGHT_VLLM_DIR": str(self.folder)} if plugin else {}),
            "PYTHONPATH": str(RAW_LOG),
            "VLLM_RAW_LOG": str(self.raw_log),
            **(environment or {}),
        }
        self._environment = {name: value for name, value in variables.items() if value is not None}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "the server was not started"
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> "VllmServer":
        """Start it, and wait until it is healthy. Raises AssertionError with the end of its log."""
        self.launch()
        return self.wait_healthy()

    def launch(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_healthy(self, limit_s: float = START_LIMIT_S) -> "VllmServer":
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            if not self.alive:
                raise AssertionError(f"vLLM ended while it started:\n{self.log_end()}")
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"{self.url}/health", timeout=5).status_code == 200:
                    return self
            time.sleep(0.5)
        raise AssertionError(f"vLLM was not healthy after {limit_s:g} s:\n{self.log_end()}")

    def log_end(self, lines: int = 40) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:]) if self.log.exists() else ""

    def stop(self) -> None:
        """End the whole process group, and wait for it."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S)
        self.kill()

    def kill(self) -> None:
        """SIGKILL to the whole process group."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def complete(self, prompt: str | list[int], max_tokens: int = 16, **more: Any) -> Answer:
        """One greedy streamed completion of exactly `max_tokens` tokens, unless `more` says otherwise."""
        return complete(self.url, prompt, max_tokens, **more)

    def complete_all(
        self, prompts: Sequence[str | list[int]], max_tokens: int | Sequence[int] = 16, callers: int = _CALLERS
    ) -> list[Answer]:
        """All of them, so many at once; in the prompts' order. `max_tokens` for all, or one for each."""
        lengths = [max_tokens] * len(prompts) if isinstance(max_tokens, int) else max_tokens
        with ThreadPoolExecutor(callers) as pool:
            return list(pool.map(self.complete, prompts, lengths))

    def read_json(self, name: str) -> dict[str, Any]:
        """A file of the shared folder."""
        found: dict[str, Any] = json.loads((self.folder / name).read_bytes())
        return found


def complete(url: str, prompt: str | list[int], max_tokens: int = 16, **more: Any) -> Answer:
    """See `VllmServer.complete`; `url` may be whatever stands before the server."""
    body = {
        "model": MODEL, "prompt": token_ids(prompt) if isinstance(prompt, str) else prompt, "max_tokens": max_tokens,
        "temperature": 0, "ignore_eos": True, "stream": True, "stream_options": {"include_usage": True}, **more,
    }  # fmt: skip
    began = time.perf_counter()
    first_s, texts, usage, request_id, error = None, [], {"prompt_tokens": 0, "completion_tokens": 0}, "", ""
    status = 0
    try:
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=300, trust_env=False) as answer:
            status = answer.status_code
            if status != 200:
                return Answer(status, "", "", 0, 0, None, time.perf_counter() - began, answer.read().decode())
            for one in EventSource(answer).iter_sse():
                if one.data == "[DONE]":
                    continue
                chunk = json.loads(one.data)
                if "error" in chunk:
                    error = str(chunk["error"])
                    break
                request_id = chunk.get("id", request_id)
                usage = chunk.get("usage") or usage
                for choice in chunk.get("choices", ()):
                    first_s = first_s if first_s is not None else time.perf_counter() - began
                    texts.append(choice["text"])
    except httpx.HTTPError as failure:
        error = f"{type(failure).__name__}: {failure}"
    whole_s = time.perf_counter() - began
    return Answer(
        status,
        request_id,
        "".join(texts),
        usage.get("prompt_tokens", 0),
        usage.get("completion_tokens", 0),
        first_s,
        whole_s,
        error,
    )


def token_ids(text: str, model_dir: Path = MODEL_DIR) -> list[int]:
    """The text's tokens, behind the begin-of-text token where the model wants one."""
    ids: list[int] = _tokenizer(model_dir).encode(text, add_special_tokens=False).ids
    config = json.loads((model_dir / "config.json").read_text())
    return [config["bos_token_id"], *ids] if config.get("model_type", "").startswith("gemma") else ids


@cache
def _tokenizer(model_dir: Path) -> Tokenizer:
    return Tokenizer.from_file(str(model_dir / "tokenizer.json"))


def read_raw_log(path: Path) -> list[dict[str, Any]]:
    """vLLM's own values, one entry an iteration (benchmarks/vllm_measures/raw_log says which); not a half line."""
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in lines]
