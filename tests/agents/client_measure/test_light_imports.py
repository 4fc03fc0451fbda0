"""A program that measures loads nothing that it does not use."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("torch", "numpy", "httpx", "httpx2", "openai", "pydantic", "fastapi", "google.protobuf", "opentelemetry")


def test_measuring_a_stream_loads_nothing_heavy() -> None:
    probe = (
        "import sys\nfrom agents.client_measure import Recorder, measure\n"
        "recorder = Recorder('c')\n"
        "assert list(measure([1, 2], recorder.record)) == [1, 2]\n"
        "assert recorder.snapshot().requests == 1\n"
        f"print(','.join(name for name in {HEAVY!r} if name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""
