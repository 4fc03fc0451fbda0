"""`python -m benchmarks.hostile`: fuzz a real `tailwright up`, then ask everything once. Status 1 where any was 5xx."""

import argparse
import random
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from benchmarks.hostile.service import Service, Tally

START_S = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hostile", description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000, help="fuzzed requests of clients and browsers")
    parser.add_argument("--messages", type=int, default=5_000, help="fuzzed OpAMP messages")
    parser.add_argument("--reports", type=int, default=2_000, help="fuzzed bodies of /v1/metrics")
    parser.add_argument("--seed", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tailwright-hostile-") as folder:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [sys.executable, "-m", "controlplane.command.main", "up", "--data-dir", f"{folder}/data"]
        log = Path(folder, "log")
        with log.open("wb") as out:
            process = subprocess.Popen([*command, "--port", str(port), "--no-tuner"], stdout=out, stderr=out)
        try:
            return _fuzz(given, f"http://127.0.0.1:{port}", Path(folder, "data"), process, log)
        finally:
            process.terminate()
            process.wait(30)


def _fuzz(given: argparse.Namespace, url: str, data_dir: Path, process: "subprocess.Popen[bytes]", log: Path) -> int:
    _until_ready(url, process)
    service = Service(url, (data_dir / "admin-token").read_text().strip())
    rng = random.Random(given.seed)
    during, after = Tally(), Tally()
    began = time.monotonic()
    parts = 10
    for _ in range(parts):
        service.messages(rng, given.messages // parts, during)
        service.reports(rng, given.reports // parts, during)
        service.requests(rng, given.requests // parts, during)
        service.sweep(after)
    took_s = time.monotonic() - began
    service.close()
    print(f"seed {given.seed}: {given.requests} requests, {given.messages} OpAMP messages, {given.reports} reports")
    print(f"in {took_s:.0f} s, {parts} sweeps of {after.statuses.total() // parts} routes and pages between them")
    print(f"answers during: {dict(sorted(during.statuses.items()))}")
    print(f"answers of the sweeps: {dict(sorted(after.statuses.items()))}")
    failures = during.failures + after.failures
    for failure in failures[:40]:
        print(failure)
    errors = [
        line for line in log.read_text(errors="replace").splitlines() if line.startswith(("Traceback", "Exception"))
    ]
    print(
        f"{len(failures)} answers of 5xx; {len(errors)} traces in the service's log; it runs: {process.poll() is None}"
    )
    if errors:
        print(log.read_text(errors="replace")[-6000:])
    return 1 if failures or process.poll() is not None else 0


def _until_ready(url: str, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.poll() is None:
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise SystemExit("tailwright up did not become ready")


if __name__ == "__main__":
    sys.exit(main())
