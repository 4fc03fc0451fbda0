"""The cost of a recorded value inside an engine: `benchmarks/hot_path.py`, in this report."""

import subprocess
import sys

from benchmarks.engine_measures.report import note
from benchmarks.engine_rivals.protocol import ROOT, WorkerFailed
from benchmarks.telemetry_measures.session import Session
from controlplane.terminal.child import one_thread_each

SCRIPT = ROOT / "benchmarks" / "hot_path.py"
_LIMIT_S = 900.0


def measure(session: Session) -> None:
    if not SCRIPT.is_file():
        raise WorkerFailed(f"{SCRIPT} is not there")
    command = [sys.executable, str(SCRIPT), "--seed", str(session.settings.seed)]
    command += ["--quick"] if session.settings.quick else []
    told = subprocess.run(
        command, cwd=ROOT, env=one_thread_each(), capture_output=True, text=True, check=False, timeout=_LIMIT_S
    )
    if told.returncode:
        raise WorkerFailed(f"{SCRIPT.name} ended with {told.returncode}: {told.stderr.strip()[-300:]}")
    # Its own headings become parts of this report.
    note("\n".join(f"#{line}" if line.startswith("##") else line for line in told.stdout.splitlines()))
