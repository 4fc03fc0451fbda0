"""A small local webhook receiver: what an on-call tool would be. Accepts only deliveries with a good signature."""

import json
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from controlplane.contract.signature import HEADER, verify


@dataclass(frozen=True)
class Received:
    """One accepted delivery: the alert state it tells of, the alert's fingerprint, and the whole body."""

    status: str
    fingerprints: tuple[str, ...]
    body: dict[str, Any]


class Receiver:
    """Listens on an ephemeral loopback port from construction until `close`."""

    def __init__(self, secret: str) -> None:
        self.received: list[Received] = []
        self.refused = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                signature = self.headers.get(HEADER, "")
                if verify(secret, body, signature, time.time()):
                    receiver._accept(json.loads(body))
                    self.send_response(200)
                else:
                    receiver.refused += 1
                    self.send_response(401)
                self.end_headers()

            def log_message(self, format: str, *arguments: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, name="webhook-receiver", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/on-call"

    def _accept(self, body: dict[str, Any]) -> None:
        fingerprints = tuple(alert["fingerprint"] for alert in body.get("alerts", []))
        self.received.append(Received(str(body.get("status")), fingerprints, body))

    def find(self, fingerprint: str, status: str) -> Received | None:
        return next((r for r in self.received if r.status == status and fingerprint in r.fingerprints), None)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
