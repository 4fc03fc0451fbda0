"""The command line of `benchmarks/engine.py`: which models, which sections, in which order."""

import argparse
import os
import time
from pathlib import Path

from benchmarks.engine_measures import (
    decode,
    equality,
    floor,
    lanes,
    overhead,
    prefill,
    quantization,
    served,
    speculation,
    techniques,
)
from benchmarks.engine_measures.machine import describe
from benchmarks.engine_measures.report import note, progress, skipped
from benchmarks.engine_measures.session import Measure, Session, Settings
from benchmarks.engine_measures.texts import Texts
from benchmarks.engine_rivals.protocol import ROOT, WorkerFailed

WITH_RIVALS: dict[str, Measure] = {"decode": decode.measure, "prefill": prefill.measure, "equality": equality.measure}
ALONE: dict[str, Measure] = {
    "floor": floor.measure,
    "quantization": quantization.measure,
    "speculation": speculation.measure,
    "lanes": lanes.measure,
    "techniques": techniques.measure,
    "overhead": overhead.measure,
}
SERVED = "served"
SECTIONS = (*WITH_RIVALS, *ALONE, SERVED)
BUNDLED = ROOT / "agents" / "models" / "tailwright-py-5m"
REAL_MODEL = Path(os.environ.get("TAILWRIGHT_BENCH_MODEL") or Path.home() / ".cache/tailwright/models/gemma3-270m")


def main(description: str | None) -> int:
    asked = _parser(description).parse_args()
    unknown = [name for name in asked.sections.split(",") if name not in SECTIONS]
    if unknown:
        print(f"no section {unknown[0]!r}; there are: {', '.join(SECTIONS)}")
        return 2
    settings = Settings(
        rounds=asked.rounds,
        threads=asked.threads,
        seed=asked.seed,
        vllm_python=asked.vllm_python,
        quick=asked.quick,
        trace=asked.trace,
        served_seconds=4.0 if asked.quick else asked.served_seconds,
        device=asked.device,
    )
    note("## Embedded engine")
    note(describe(settings))
    for folder in asked.model or [REAL_MODEL, BUNDLED]:
        if not (folder / "config.json").is_file():
            skipped(f"model {folder}", "no such model folder (benchmarks/README.md tells how to make it)")
            continue
        _run(settings, folder, asked.sections.split(","))
    return 0


def _run(settings: Settings, folder: Path, sections: list[str]) -> None:
    began = time.monotonic()
    note(f"\n## Model {folder.name}, bfloat16")
    draft = folder.with_name(folder.name + "-draft")
    session = Session(settings, folder, Texts(folder, settings.seed), draft if draft.is_dir() else None)
    try:
        if set(sections) - {SERVED}:
            session.start(rivals=bool(set(sections) & set(WITH_RIVALS)))
            for name, facts in session.facts.items():
                note(
                    f"- {name}: {facts['versions']}, {facts['threads']} threads"
                    + (f", preloaded {', '.join(facts['preloaded'])}" if facts.get("preloaded") else "")
                    + (f", kernels {facts['kernels']}" if "kernels" in facts else "")
                )
            _measure(session, WITH_RIVALS, sections)
            session.close_rivals()
            _measure(session, ALONE, sections)
        session.close()
        _measure(session, {SERVED: served.measure}, sections)
    except WorkerFailed as error:
        skipped(f"model {folder.name}", str(error))
    finally:
        session.close()
    note(f"\n{folder.name}: {time.monotonic() - began:.0f} s")


def _measure(session: Session, measures: dict[str, Measure], sections: list[str]) -> None:
    """One after another; what fails is named, and the others go on with a fresh worker of ours."""
    for name, measure in measures.items():
        if name not in sections:
            continue
        progress(f"== {session.model_dir.name}: {name}")
        try:
            measure(session)
        except WorkerFailed as error:
            skipped(name, str(error))
            if session.ours is not None and name != SERVED:
                session.restart_ours()


def _parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sections", default=",".join(SECTIONS), help=f"of {', '.join(SECTIONS)}; default: all")
    parser.add_argument(
        "--model", type=Path, action="append", help=f"may be repeated; default: {REAL_MODEL} and the bundled one"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), help="of every contestant")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="of our engine and transformers; vLLM has its own"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--vllm-python",
        default=os.environ.get("TAILWRIGHT_VLLM_PYTHON"),
        help="interpreter of an environment with vLLM; default: $TAILWRIGHT_VLLM_PYTHON",
    )
    parser.add_argument("--trace", type=Path, help="Azure LLM trace (CSV) for the served load's lengths and arrivals")
    parser.add_argument("--served-seconds", type=float, default=12.0, help="arrivals of one trial of the served load")
    parser.add_argument("--quick", action="store_true", help="sizes that show that it works; the figures mean nothing")
    return parser
