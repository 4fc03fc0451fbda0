"""A real engine behind a real socket, for tests that speak HTTP to it."""

import contextlib
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI

from agents.engine.core.engine import Engine
from agents.engine.options import EngineOptions
from agents.engine.server.app import create_app
from agents.engine.server.control_surface import create_control_app


def eventually(condition: Callable[[], Any], timeout_s: float = 20.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.005)
    return value


@contextlib.contextmanager
def listening(app: FastAPI, listener: socket.socket) -> Iterator[None]:
    """The application behind that socket, in a thread of its own."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        eventually(lambda: server.started)
        yield
    finally:
        server.should_exit = True
        thread.join(20)


@contextlib.contextmanager
def controlling(engine: Engine) -> Iterator[httpx.Client]:
    """A client of the engine's control surface, by a real Unix socket."""
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
        path = f"{folder}/control.sock"
        listener.bind(path)
        transport = httpx.HTTPTransport(uds=path)
        with (
            listening(create_control_app(engine), listener),
            httpx.Client(base_url="http://engine", transport=transport, timeout=60) as client,
        ):
            yield client


@contextlib.contextmanager
def serving(model_dir: Path, apps: list[FastAPI] | None = None, **options: Any) -> Iterator[tuple[Engine, str]]:
    """The engine and its base address. apps: takes the application, for tests that look inside."""
    engine = Engine(EngineOptions(model_dir, served_model_name="tiny", **options))
    listener = socket.create_server(("127.0.0.1", 0))
    app = create_app(engine)
    if apps is not None:
        apps.append(app)
    with listening(app, listener):
        yield engine, f"http://127.0.0.1:{listener.getsockname()[1]}"
