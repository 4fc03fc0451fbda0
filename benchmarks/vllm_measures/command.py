"""The command line of `benchmarks/vllm.py`: which sections, in which order, and the end of everything."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import FrameType

import httpx

from agents.backends.vllm.doctor.installation import default_executable
from benchmarks.engine_measures.machine import commit, describe_machine
from benchmarks.engine_measures.report import note, progress, skipped
from benchmarks.engine_measures.texts import Texts
from benchmarks.engine_rivals.protocol import ROOT, WorkerFailed
from benchmarks.vllm_measures import decisions, faults, live_changes, managed, percentiles, throughput
from benchmarks.vllm_measures.processes import Nursery
from benchmarks.vllm_measures.session import Measure, Session, Settings
from controlplane.contract.errors import TailwrightError

SECTIONS: dict[str, Measure] = {
    "percentiles": percentiles.measure,
    "decisions": decisions.measure,
    "changes": live_changes.measure,
    "faults": faults.measure,
    "throughput": throughput.measure,
    "managed": managed.measure,
}
"""In the order in which they run: those that share the attached server come first."""
BUNDLED = ROOT / "agents" / "models" / "tailwright-py-5m"


def main(description: str | None) -> int:
    asked = _parser(description).parse_args()
    wanted = asked.sections.split(",")
    if unknown := [name for name in wanted if name not in SECTIONS]:
        print(f"no section {unknown[0]!r}; there are: {', '.join(SECTIONS)}")
        return 2
    if asked.vllm_python is None:
        skipped("vLLM", "no interpreter: run `make vllm`, give --vllm-python, or set TAILWRIGHT_VLLM_PYTHON")
        return 0
    settings = Settings(
        python=asked.vllm_python,
        model=asked.model,
        rounds=asked.rounds or (2 if asked.quick else 5),
        threads=asked.threads,
        seed=asked.seed,
        quick=asked.quick,
    )
    note("## vLLM with Tailwright")
    note(describe_machine() + f", commit {commit()}")
    note(
        f"- vLLM {_versions(settings.python)}; model {settings.model.name}, float32, {settings.threads} thread(s)\n"
        f"- seed {settings.seed}, {settings.rounds} rounds"
        + ("; QUICK: the figures mean little" if asked.quick else "")
    )
    # SIGTERM ends the run as an interrupt does: through every `finally`.
    signal.signal(signal.SIGTERM, _interrupt)
    began = time.monotonic()
    failed = 0
    folder = tempfile.mkdtemp(prefix="tailwright-vllm-bench-")
    nursery = Nursery(Path(folder))
    progress(f"logs and files: {folder}")
    session = Session(settings, nursery, Texts(settings.model, settings.seed))
    try:
        for name in SECTIONS:
            if name in wanted:
                failed += not _run(session, name)
    finally:
        nursery.close()
    note(f"\n{time.monotonic() - began:.0f} s")
    return 1 if failed else 0


def _run(session: Session, name: str) -> bool:
    progress(f"== {name}")
    began = time.monotonic()
    try:
        SECTIONS[name](session)
    except (WorkerFailed, TailwrightError, httpx.HTTPError, OSError, subprocess.SubprocessError) as error:
        skipped(name, str(error))
        return False
    except Exception as error:  # noqa: BLE001 - told in the report; the other sections may well succeed.
        traceback.print_exc(file=sys.stderr)
        skipped(name, f"{type(error).__name__}: {error}")
        return False
    finally:
        progress(f"== {name}: {time.monotonic() - began:.0f} s")
    return True


def _versions(python: str) -> str:
    """Of vLLM and the plugin in that environment."""
    code = (
        "import importlib.metadata as m, sys\n"
        "found = {d.metadata['Name']: d.version for d in m.distributions()}\n"
        "print(found.get('vllm', 'missing'), '(Python ' + sys.version.split()[0] + ', torch ' "
        "+ found.get('torch', 'missing') + ', tailwright-vllm ' + found.get('tailwright-vllm', 'missing') + ')')"
    )
    told = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return told.stdout.strip() or f"unknown ({told.stderr.strip()[-200:]})"


def _built() -> str | None:
    """The interpreter of the environment that `make vllm` builds, if it is there."""
    python = default_executable().with_name("python")
    return str(python) if python.exists() else None


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", default=",".join(SECTIONS), help=f"of {', '.join(SECTIONS)}; default: all")
    parser.add_argument("--model", type=Path, default=BUNDLED, help="default: the bundled model")
    parser.add_argument("--rounds", type=int, help="repeats of each measure; default 5, with --quick 2")
    parser.add_argument("--threads", type=int, default=1, help="of each server's model")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--vllm-python",
        default=os.environ.get("TAILWRIGHT_VLLM_PYTHON") or _built(),
        help="interpreter of an environment with vLLM and tailwright-vllm; default: $TAILWRIGHT_VLLM_PYTHON, or that "
        "of `make vllm`",
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it works")
    return parser
