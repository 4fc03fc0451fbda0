"""The service as a process: it starts, serves, and ends with status 0 on SIGTERM, with connections open."""

import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from controlplane.app.serve import server_of
from controlplane.app.settings import ServiceSettings

pytestmark = pytest.mark.slow

PROGRAM = """
import sys, threading
from pathlib import Path
from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from controlplane.app.serve import server_of
from controlplane.app.settings import ServiceSettings

def mount(app: FastAPI) -> None:
    def lines():
        yield "first\\n"
        app.state.service.stop.wait()
        yield "last\\n"
    app.add_api_route("/stream", lambda: StreamingResponse(lines()))

server = server_of(ServiceSettings(data_dir=Path(sys.argv[1]), port=0, log_level="warning"), mount)
def tell():
    server.accepting.wait()
    print(server.port, flush=True)
threading.Thread(target=tell, daemon=True).start()
server.run()
sys.exit(0 if server.started else 1)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_and_exits_0(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{int(process.stdout.readline())}"
        admin = {"Authorization": f"Bearer {(tmp_path / 'data' / 'admin-token').read_text().strip()}"}
        assert httpx.get(f"{url}/readyz").status_code == 200
        with (
            connect(url.replace("http", "ws") + "/v1/opamp", additional_headers=admin),
            httpx.stream("GET", f"{url}/stream", timeout=10) as streaming,
        ):
            lines = streaming.iter_lines()
            assert next(lines) == "first"
            process.send_signal(number)
            assert next(lines) == "last"
            assert process.wait(15) == 0


def test_agents_that_a_stop_cuts_off_are_told_and_leave_no_trace_in_the_log(tmp_path: Path) -> None:
    """Each has its departure to write, and the database is somebody else's."""
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "data")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as process, ExitStack() as open_until_the_end:
        assert process.stdout is not None and process.stderr is not None
        url = f"ws://127.0.0.1:{int(process.stdout.readline())}/v1/opamp"
        admin = {"Authorization": f"Bearer {(tmp_path / 'data' / 'admin-token').read_text().strip()}"}
        agents = [open_until_the_end.enter_context(connect(url, additional_headers=admin)) for _ in range(3)]
        with closing(sqlite3.connect(tmp_path / "data" / "tailwright.db", timeout=30, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            process.send_signal(signal.SIGTERM)
            for agent in agents:
                with pytest.raises(ConnectionClosed) as ended:
                    agent.recv(timeout=30)
                assert ended.value.rcvd is not None and ended.value.rcvd.code == 1012  # Service restart.
            said = process.stderr.readline()
            other.execute("ROLLBACK")
        said += process.stderr.read()
        assert process.wait(30) == 0
    assert "Cancel 3 running task(s)" in said
    assert "Traceback" not in said and len(said.splitlines()) == 1, said


def test_its_own_parts_call_it_by_a_loopback_name_whatever_names_others_may_use(tmp_path: Path) -> None:
    names = ("tailwright.example",)
    settings = ServiceSettings(data_dir=tmp_path, host="0.0.0.0", port=0, insecure_http=True, allowed_hosts=names)
    server = server_of(settings)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        assert server.accepting.wait(30)
        url = f"http://127.0.0.1:{server.port}/healthz"
        said = {
            host: httpx.get(url, headers={"Host": host}).status_code for host in (*names, "127.0.0.1", "evil.example")
        }
    finally:
        server.should_exit = True
        thread.join(15)
    assert said == {"tailwright.example": 200, "127.0.0.1": 200, "evil.example": 421}
