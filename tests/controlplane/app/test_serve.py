"""The service as a process: it starts, serves, and ends with status 0 on SIGTERM, with connections open."""

import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest
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
