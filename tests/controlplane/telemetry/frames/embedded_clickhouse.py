"""ClickHouse's own engine in this process (chDB), as the store's client and as a server on loopback."""

import ssl
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from chdb.session import Session

from controlplane.contract.errors import Unavailable
from controlplane.telemetry.frames.clickhouse import ClickHouse

_INSERT_TAIL = " FORMAT RowBinary"


class EmbeddedClickHouse(ClickHouse):
    """One database of the process's one chDB session."""

    def __init__(self, folder: Path, name: str) -> None:
        self._lock = threading.Lock()
        self._folder = folder
        self._session = Session(str(folder / "chdb"))
        self._name = name
        self.ask(f"CREATE DATABASE IF NOT EXISTS {name}", in_database=False)

    def ask(self, statement: str, body: bytes | None = None, *, in_database: bool = True) -> bytes:
        with self._lock:
            if in_database:
                self._query(f"USE {self._name}")
            if body is None:
                statement, _, form = statement.partition(" FORMAT ")
                return self._query(statement, form or "RowBinary")
            with tempfile.NamedTemporaryFile(dir=self._folder, suffix=".bin") as file:
                file.write(body)
                file.flush()
                into = statement.removesuffix(_INSERT_TAIL)
                return self._query(f"{into} FROM INFILE '{file.name}' FORMAT RowBinary")

    def close(self) -> None:
        self._session.close()

    def _query(self, statement: str, form: str = "RowBinary") -> bytes:
        try:
            result = self._session.query(statement, form)
        except RuntimeError as error:
            raise Unavailable(f"ClickHouse: {error}") from error
        return bytes(result.bytes()) if result is not None and result.bytes() is not None else b""


@contextmanager
def served(clickhouse: EmbeddedClickHouse, port: int = 0, *, tls: ssl.SSLContext | None = None) -> Iterator[str]:
    """The URL of a server that answers as ClickHouse's HTTP interface does, with the embedded engine behind it."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            given = parse_qs(urlsplit(self.path).query)
            try:
                if "query" in given:
                    status, answer = 200, clickhouse.ask(given["query"][0], body)
                else:
                    status, answer = 200, clickhouse.ask(body.decode())
            except Unavailable as error:
                status, answer = 500, error.message.encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}/default"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
