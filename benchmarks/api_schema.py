"""Checks the API against its own document with schemathesis, on a real server with one node and two revisions.

Every check of schemathesis counts, none is left out; `api_schema.toml` says which answers cannot be foretold from the
document, and why. The server's way out is a proxy that nobody serves, since the
webhooks made up here name hosts of other people; and `/api/v1/stream`, which never ends by itself, is ended by the
server after its first events.

    python -m benchmarks.api_schema --seeds 1,2,3
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import FastAPI
from sqlmodel import col, update
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Connection

from controlplane.app.service import create_app
from controlplane.app.settings import ServiceSettings
from controlplane.auth import store
from controlplane.auth.tables import TokenRow
from controlplane.contract.bodies.access import EnrolmentRequest, Scope
from controlplane.contract.bodies.configs import RevisionCreate
from controlplane.db.request_parts import Parts
from controlplane.fleet import revisions
from controlplane.fleet import store as fleet

ENDLESS = "/api/v1/stream"
_NOWHERE = {name: "http://127.0.0.1:9" for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")}
STOP_S = 60.0
ROOT = Path(__file__).parents[1]
CONFIG = Path(__file__).with_suffix(".toml")
TOKEN_ID = 1_234_567_891
TOKEN_FILE = "check-token"


class EndsEndless:
    """Ends an answer of `ENDLESS` with its first part."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Connection, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != ENDLESS:
            await self._app(scope, receive, send)
            return
        ended = False

        async def send_once(message: Message) -> None:
            nonlocal ended
            if ended:
                return
            if message["type"] == "http.response.body":
                ended = True
                message = {**message, "more_body": False}
            await send(message)

        async def gone_once_ended() -> Message:
            return {"type": "http.disconnect"} if ended else await receive()

        await self._app(scope, gone_once_ended, send_once)


@dataclass(frozen=True)
class Served:
    url: str
    token: str


@contextmanager
def served(data_dir: Path) -> Iterator[Served]:
    """The service in a process of its own, with a database in `data_dir`."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        command = [sys.executable, "-m", "benchmarks.api_schema", "--serve", str(data_dir)]
        command += ["--socket", str(listening.fileno())]
        server = subprocess.Popen(command, env={**os.environ, **_NOWHERE}, pass_fds=[listening.fileno()])
        try:
            file = data_dir / TOKEN_FILE
            while not file.exists() or not file.read_text().strip():
                if server.poll() is not None:
                    raise RuntimeError(f"the server ended with status {server.returncode}")
                time.sleep(0.05)
            yield Served(f"http://127.0.0.1:{listening.getsockname()[1]}", file.read_text().strip())
        finally:
            server.terminate()
            server.wait(STOP_S)


def check(at: Served, seed: int, *options: str, captured: bool = False) -> subprocess.CompletedProcess[str]:
    """One run of schemathesis; status 0 when it found nothing."""
    command = [
        sys.executable,
        "-m",
        "schemathesis.cli",
        "--config-file",
        str(CONFIG),
        "run",
        f"{at.url}/openapi.json",
        "--no-color",
    ]
    command += ["--header", f"Authorization: Bearer {at.token}", "--seed", str(seed), "--checks", "all"]
    command += ["--generation-database", "none", "--continue-on-failure", "--request-timeout", "60", *options]
    with tempfile.TemporaryDirectory() as empty:
        environment = {**os.environ, "NO_PROXY": "127.0.0.1", "PYTHONPATH": str(ROOT)}
        return subprocess.run(command, cwd=empty, env=environment, text=True, capture_output=captured, check=False)


def _prepare(app: FastAPI, file: Path) -> None:
    """What the document's examples speak of, and a token whose number is not guessed: the check revokes small ones."""
    service, by = Parts.of(app), "schemathesis"
    now = service.clock()
    with service.database.session() as session:
        fleet.enrol(session, EnrolmentRequest(node="gpu-1", pool="chat", backend="vllm"), actor=by, now=now)
        for seats in (16, 32):
            revisions.find_or_create(session, RevisionCreate(knobs={"max_num_seqs": seats}), actor=by, now=now)
        view, token = store.issue(session, name=by, scope=Scope.ADMIN, now=now)
        session.exec(update(TokenRow).where(col(TokenRow.id) == view.id).values(id=TOKEN_ID))
    file.write_text(token)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--socket", type=int, help=argparse.SUPPRESS)
    asked, more = parser.parse_known_args()
    if asked.serve is not None:
        app = create_app(ServiceSettings(data_dir=asked.serve, log_level="error"))
        _prepare(app, asked.serve / TOKEN_FILE)
        config = uvicorn.Config(EndsEndless(app), log_level="warning", access_log=False)
        uvicorn.Server(config).run(sockets=[socket.socket(fileno=asked.socket)])
        return 0
    found = 0
    for seed in map(int, asked.seeds.split(",")):
        with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as at:
            began = time.monotonic()
            outcome = check(at, seed, *more)
            print(f"seed {seed}: status {outcome.returncode} after {time.monotonic() - began:.0f} s", flush=True)
            found |= outcome.returncode
    return found


if __name__ == "__main__":
    sys.exit(main())
