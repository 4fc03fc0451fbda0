"""The real torch engine with the bundled model, as a process of its own."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.processes import free_port

ROOT = Path(__file__).resolve().parents[3]
MODEL = ROOT / "agents/models/tailwright-py-5m"
MODEL_NAME = MODEL.name


class EngineProcess:
    """`start` returns when it is healthy; `kill` is kill -9; the port stays the same.

    It serves a folder of links to the bundled model, so that a test may take the weights away.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="tailwright-engine-"))
        self._model = self._folder / MODEL_NAME
        self._model.mkdir()
        for path in MODEL.iterdir():
            (self._model / path.name).symlink_to(path)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        if self.running:
            return
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TAILWRIGHT_")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "agents.engine", "--model", str(self._model), "--port", str(self.port)],
            cwd=ROOT,
            env=environment,
            stderr=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 90
        while True:
            assert self.running and time.monotonic() < deadline, "the engine did not start"
            try:
                if httpx.get(f"{self.url}/health", trust_env=False).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.1)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(20)
            self._process = None

    @contextmanager
    def without_weights(self) -> Iterator[None]:
        """The weights' file is gone meanwhile: no other weights can be loaded."""
        file = self._model / "model.safetensors"
        file.rename(self._folder / file.name)
        try:
            yield
        finally:
            (self._folder / file.name).rename(file)

    def close(self) -> None:
        """End it for good."""
        self.kill()
        shutil.rmtree(self._folder)

    def complete(self, prompt: str, max_tokens: int) -> None:
        """One request, not streamed."""
        body = {"model": MODEL_NAME, "prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True}
        httpx.post(f"{self.url}/v1/completions", json=body, timeout=60, trust_env=False).raise_for_status()
