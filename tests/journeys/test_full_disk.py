"""A real full disk under a real service: nothing acknowledged is lost, readiness says so, and room ends it at once.

The disk is a tmpfs in a mount namespace of the service's own, which needs no privilege; the test looks into it through
/proc. `tests/controlplane/telemetry/journal/test_writer.py` has the same by SQLite's own limit on its file.
"""

import errno
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from controlplane.contract import metrics
from controlplane.telemetry.journal.write_fault import QUIET_S
from tests.processes import answers, free_port, wait_for

pytestmark = pytest.mark.slow

DISK_BYTES, BALLAST_BYTES = 24 << 20, 14 << 20
NODE, POINTS = "n1", 400
SCRIPT = """
mount -t tmpfs -o size=$SIZE none "$FOLDER"
head -c $BALLAST /dev/zero > "$FOLDER/ballast"
exec "$PYTHON" -m controlplane.command.main up --data-dir "$FOLDER/data" --port $PORT --no-tuner --no-dashboard
"""


class Full:
    """The service on its small disk. `folder`: that disk, as this process sees it."""

    def __init__(self, folder: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        given = {"SIZE": DISK_BYTES, "BALLAST": BALLAST_BYTES, "FOLDER": folder, "PYTHON": sys.executable, "PORT": port}
        environment = {**os.environ, **{name: str(value) for name, value in given.items()}}
        self.log = folder.parent / "log"
        with self.log.open("wb") as log:
            as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
            command = ["unshare", *as_root, "--mount", "sh", "-eu", "-c", SCRIPT]
            self.process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        self.folder = Path(f"/proc/{self.process.pid}/root{folder}")

    def stuff(self) -> None:
        """Take what room is left, and what the service gives back of its own in the meantime."""
        try:
            with (self.folder / "stuffing").open("ab", buffering=0) as file:
                while file.write(b"x" * 4096):
                    pass
        except OSError as error:
            assert error.errno == errno.ENOSPC

    def http(self) -> httpx.Client:
        token = (self.folder / "data" / "admin-token").read_text().strip()
        return httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {token}"}, timeout=60)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Full]:
    (tmp_path / "disk").mkdir()
    found = Full(tmp_path / "disk")
    try:
        wait_for("the service is ready", lambda: answers(f"{found.url}/readyz"))
        yield found
    finally:
        found.process.terminate()
        found.process.wait(30)


def report(ordinal: int) -> bytes:
    """`POINTS` points of a counter, each of a tenant of its own, of the present window."""
    request = ExportMetricsServiceRequest()
    sent = request.resource_metrics.add()
    for name, value in ((metrics.NODE.name, NODE), (metrics.POOL.name, "chat")):
        sent.resource.attributes.add(key=name).value.string_value = value
    total = sent.scope_metrics.add().metrics.add(name=metrics.REQUESTS.name).sum
    total.aggregation_temporality, total.is_monotonic = 1, True
    end_ns = int(time.time()) // 5 * 5 * 10**9
    for place in range(POINTS):
        point = total.data_points.add(start_time_unix_nano=end_ns - 5 * 10**9, time_unix_nano=end_ns, as_int=1)
        point.attributes.add(key=metrics.TENANT.name).value.string_value = f"tenant-{ordinal}-{place}"
    packed: bytes = request.SerializeToString()
    return packed


def degraded(http: httpx.Client, mode: str) -> bool:
    found = re.search(rf'^tailwright_degraded{{mode="{mode}"}} (\S+)', http.get("/metrics").text, re.MULTILINE)
    return found is not None and float(found[1]) == 1


def test_readiness_tells_of_a_full_disk_and_of_its_end(full: Full) -> None:
    kept = 0
    with full.http() as http:

        def send(ordinal: int) -> httpx.Response:
            kind = {"Content-Type": "application/x-protobuf"}
            return http.post("/v1/metrics", content=report(ordinal), headers=kind)

        for ordinal in range(1, 2000):
            answer = send(ordinal)
            if answer.status_code != 200:
                break
            kept += POINTS
        full.stuff()
        assert (answer.status_code, kept > 0) == (503, True), answer.text
        assert "the report could not be written: the disk is full" in answer.json()["error"]["message"]
        ready = http.get("/readyz")
        assert (ready.status_code, ready.json()["telemetry"]) == (503, "the disk is full"), ready.text
        assert "disk_low" in ready.json()["degraded"]
        wait_for("the metrics tell it", lambda: degraded(http, "telemetry_not_written") and degraded(http, "disk_low"))
        full.stuff()
        spans = 1
        # A checkpoint may have given the write-ahead log its own room back: what fits there is kept, the rest refused.
        while (answer := send(ordinal)).status_code == 200:
            kept, ordinal, spans = kept + POINTS, ordinal + 1, 2
            full.stuff()
        assert (answer.status_code, http.get("/readyz").status_code) == (503, 503)

        (full.folder / "ballast").unlink()
        wait_for("the service is ready again", lambda: http.get("/readyz").status_code == 200, limit_s=QUIET_S / 2)
        assert "disk_low" not in http.get("/readyz").json()["degraded"]
        assert send(ordinal).status_code == 200
        kept += POINTS

        def counted() -> float:
            series = http.get("/api/v1/scalars", params={"metric": metrics.REQUESTS.short, "window": "1h"}).json()
            return float(sum(one["value"] for one in series["series"]))

        assert counted() == kept
    log = full.log.read_text()
    assert log.count("is nearly full") == 1 and log.count("has room again") == 1
    assert 1 <= log.count("a report could not be written") <= spans
