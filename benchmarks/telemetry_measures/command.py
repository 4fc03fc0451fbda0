"""The command line of `benchmarks/telemetry.py`: which sections, in which order, and the end of everything."""

import argparse
import importlib.metadata
import os
import platform
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import FrameType

import httpx

from benchmarks.engine_measures.machine import commit, describe_machine
from benchmarks.engine_measures.report import note, progress, skipped
from benchmarks.engine_rivals.protocol import WorkerFailed
from benchmarks.power_loss.recording import RecorderFailed
from benchmarks.telemetry_measures import accuracy, bytes_on_disk, history, hot_path, prometheus, queries, sustained
from benchmarks.telemetry_measures.on_postgresql import postgres
from benchmarks.telemetry_measures.session import Measure, Session, Settings
from benchmarks.telemetry_measures.under_kills import kills
from benchmarks.vllm_measures.processes import Nursery
from controlplane.contract.errors import TailwrightError

SECTIONS: dict[str, Measure] = {
    "hot_path": hot_path.measure,
    "queries": queries.measure,
    "accuracy": accuracy.measure,
    "bytes": bytes_on_disk.measure,
    "prometheus": prometheus.measure,
    "sustained": sustained.measure,
    "kills": kills.measure,
    "history": history.measure,
    "postgres": postgres.measure,
}
"""In the order in which they run: those that ask the same loaded hour stand together."""
_OF_THE_HOUR = ("queries", "accuracy", "bytes")
_PACKAGES = ("numpy", "SQLAlchemy", "uvicorn", "fastapi", "zstandard", "protobuf")


def main(description: str | None) -> int:
    asked = _parser(description).parse_args()
    wanted = [name for part in asked.section or [",".join(SECTIONS)] for name in part.split(",")]
    if unknown := [name for name in wanted if name not in SECTIONS]:
        print(f"no section {unknown[0]!r}; there are: {', '.join(SECTIONS)}", file=sys.stderr)
        return 2
    settings = Settings(
        nodes=tuple(map(int, asked.nodes.split(","))) if asked.nodes else (200,) if asked.quick else (4000, 8000),
        minutes=asked.minutes or (0.5 if asked.quick else 10.0),
        rounds=asked.rounds or (2 if asked.quick else 4),
        kills=asked.kills,
        seed=asked.seed,
        quick=asked.quick,
    )
    cores = sorted(os.sched_getaffinity(0))
    note("## Telemetry")
    note(describe_machine() + f", commit {commit()}")
    packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    note(f"- Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {packages}")
    note(
        f"- the service (or its rival) on core {cores[0]}, everything else on core {cores[-1]}; seed {settings.seed}"
        + ("; QUICK: the figures mean little" if settings.quick else "")
    )
    # What is measured binds itself to its core; the benchmark's own work must not be there.
    os.sched_setaffinity(0, {cores[-1]})
    # SIGTERM ends the run as an interrupt does: through every `finally`.
    signal.signal(signal.SIGTERM, _interrupt)
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="tailwright-telemetry-bench-", dir=asked.folder))
    nursery = Nursery(folder)
    progress(f"logs and files: {folder}")
    session = Session(settings, nursery, service_core=cores[0], load_core=cores[-1])
    failed = 0
    try:
        for place, name in enumerate(order := [name for name in SECTIONS if name in wanted]):
            failed += not _run(session, name)
            if not any(later in _OF_THE_HOUR for later in order[place + 1 :]):
                session.close_hour()
    finally:
        nursery.close()
        if not asked.keep:
            shutil.rmtree(folder, ignore_errors=True)
    for failure in session.failures:
        note(f"- **FAILED**: {failure}")
    note(f"\n{time.monotonic() - began:.0f} s")
    return 1 if failed or session.failures else 0


def _run(session: Session, name: str) -> bool:
    progress(f"== {name}")
    began = time.monotonic()
    try:
        SECTIONS[name](session)
    except (
        *(WorkerFailed, RecorderFailed, TailwrightError, httpx.HTTPError, OSError, subprocess.SubprocessError),
        sqlite3.Error,
    ) as error:
        traceback.print_exc(file=sys.stderr)
        skipped(name, f"{type(error).__name__}: {error}")
        return False
    except Exception as error:  # noqa: BLE001 - told in the report; the other sections may well succeed.
        traceback.print_exc(file=sys.stderr)
        skipped(name, f"{type(error).__name__}: {error}")
        return False
    finally:
        progress(f"== {name}: {time.monotonic() - began:.0f} s")
    return True


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--section", action="append", help=f"may be repeated; of {', '.join(SECTIONS)}; default: all")
    parser.add_argument("--nodes", help="of the sustained runs, comma separated; default 4000,8000, with --quick 200")
    parser.add_argument("--minutes", type=float, help="of each sustained run; default 10, with --quick 0.5")
    parser.add_argument("--rounds", type=int, help="measured pieces of a CPU run; default 4, with --quick 2")
    parser.add_argument("--kills", type=int, default=0, help="default 200, with --quick 8")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where the databases are made; default: the temporary folder")
    parser.add_argument("--keep", action="store_true", help="keep logs and databases")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    return parser
