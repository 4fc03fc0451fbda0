"""An application under a real uvicorn on loopback, configured as `controlplane.app.serve` does it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI


@contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """The base URL while it runs."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    service = uvicorn.Server(
        uvicorn.Config(app, http="httptools", loop="uvloop", log_level="warning", access_log=False, lifespan="off")
    )
    started = threading.Event()
    original = service.startup

    async def startup(sockets: list[socket.socket] | None = None) -> None:
        await original(sockets=sockets)
        started.set()

    service.startup = startup  # type: ignore[method-assign]
    thread = threading.Thread(target=service.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        assert started.wait(30)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        service.should_exit = True
        thread.join()
        listener.close()
