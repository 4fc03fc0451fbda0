"""How often the story of `make run` ends well, and how long it and each of its steps takes.

    python benchmarks/story.py --runs 3                     # alone
    python benchmarks/story.py --runs 10 --busy 1           # beside a process that takes a core throughout
    python benchmarks/story.py --runs 3 --engine vllm

Each run is `tailwright demo --once` with the settings of `make run`, in a folder of its own. A busy process is one that
does nothing but count, at the usual priority, from before a run's start to after its end. One row a run; a run that
fails says where, and leaves its folder.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
COUNT = "while True: pass"
PORTS = ("--port", "7320", "--engine-ports", "7421,7422,7429")


@dataclass
class Run:
    """One telling. `record` is what the demo writes of itself; empty when it did not come so far."""

    status: int
    took_s: float
    record: dict[str, Any]
    end: str


def tell(engine: str, busy: int, seed: int, folder: Path) -> Run:
    """Tell the story once, beside `busy` processes that count."""
    # Each in a session of its own: the kernel shares the processors out among sessions (sched_autogroup).
    counting = [subprocess.Popen([sys.executable, "-c", COUNT], start_new_session=True) for _ in range(busy)]
    try:
        began = time.monotonic()
        command = [sys.executable, "-m", "controlplane.command.main", "demo", "--once", "--engine", engine, *PORTS]
        done = subprocess.run(
            [*command, "--seed", str(seed), "--data-dir", str(folder)],
            cwd=ROOT,
            env={**os.environ, "COLUMNS": "160"},
            capture_output=True,
            text=True,
            check=False,
        )
        took_s = time.monotonic() - began
    finally:
        for process in counting:
            process.kill()
            process.wait()
    told = folder / "story.json"
    record = json.loads(told.read_text()) if told.exists() else {}
    return Run(done.returncode, took_s, record, done.stdout[-1500:] + done.stderr[-500:])


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def row(number: int, run: Run) -> str:
    spans = {span["name"]: span for span in run.record.get("spans", [])}

    def p99(name: str) -> str:
        value = spans.get(name, {}).get("quantiles", {}).get("ttft", {}).get("0.99")
        return "-" if value is None else f"{1e3 * value:.0f}"

    def e2e(name: str) -> str:
        value = spans.get(name, {}).get("quantiles", {}).get("e2e", {}).get("0.95")
        return "-" if value is None else f"{1e3 * value:.0f}"

    def of_record(name: str) -> str:
        value = run.record.get(name)
        return "-" if value is None else f"{value:.0f}"

    steps = {step["title"]: step for step in run.record.get("steps", [])}
    named = steps.get("The alert names the change", {}).get("took_s")
    broken = steps.get("p99 regresses", {}).get("took_s")
    told = "-" if not named or broken is None else f"{named + broken:.0f}"
    back = run.record.get("back_s")
    ended = "yes" if run.status == 0 else f"**no**: {run.record.get('failure', 'no record')}".replace("\n", " ")
    columns = [
        *(
            str(number),
            f"{run.took_s:.0f}",
            *(of_record(name) for name in ("first_finding_s", "first_gain_s")),
            told,
            "-" if back is None else f"{back:.0f}",
        ),
        *(p99(name) for name in ("before", "during", "back", "after")),
        *(e2e("before"), e2e("after"), ended),
    ]
    return "| " + " | ".join(columns) + " |"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--busy", type=int, default=0, help="processes that take a core each, throughout")
    parser.add_argument("--engine", choices=("embedded", "vllm"), default="embedded")
    parser.add_argument(
        "--seed", type=int, default=7, help="of the first run's traffic; the next ones count on from it"
    )
    arguments = parser.parse_args()
    print(
        f"{arguments.engine}, {arguments.runs} runs beside {arguments.busy} busy processes; {processor()}, "
        f"{os.cpu_count()} cores; seeds from {arguments.seed}; Python {platform.python_version()}\n"
    )
    print(
        "| run | whole, s | first finding, s | first gain, s | named after, s | back after the alert, s "
        "| ttft p99 before, ms | during | back | after | e2e p95 before, ms | after | ended well |"
    )
    print("|" + "---|" * 13, flush=True)
    runs = []
    for number in range(arguments.runs):
        folder = Path(tempfile.mkdtemp(prefix="story-"))
        run = tell(arguments.engine, arguments.busy, arguments.seed + number, folder / "demo")
        runs.append(run)
        print(row(number + 1, run), flush=True)
        taken = [f"{step.get('took_s') or 0:.0f} s {step['title']}" for step in run.record.get("steps", [])]
        print("; ".join(taken), file=sys.stderr, flush=True)
        if run.status:
            print(f"{run.end}\nkept in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder)
    good = [run.took_s for run in runs if run.status == 0]
    spread = f"; {min(good):.0f} to {max(good):.0f} s, median {statistics.median(good):.0f}" if good else ""
    print(f"\n{len(good)} of {len(runs)} ended well{spread}.")
    return 0 if len(good) == len(runs) else 1


if __name__ == "__main__":
    sys.exit(main())
