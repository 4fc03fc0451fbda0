"""The command line of `benchmarks/chaos.py`: one measure, its processes, and the end of everything."""

import argparse
import asyncio
import importlib.metadata
import platform
import shutil
import signal
import tempfile
from pathlib import Path
from types import FrameType

from benchmarks.chaos_measures import fuzz, kills, tls_cost, week
from benchmarks.chaos_measures.kill_world import KINDS, Kind
from benchmarks.engine_measures.machine import commit, describe_machine
from benchmarks.engine_measures.report import note, progress
from benchmarks.vllm_measures.processes import Nursery

_PACKAGES = ("uvicorn", "fastapi", "aiohttp", "protobuf", "SQLAlchemy")


def main(description: str | None) -> int:
    asked = _parser(description).parse_args()
    signal.signal(signal.SIGTERM, _interrupt)
    note(f"## Chaos: {asked.measure}\n")
    note(f"{describe_machine()}, commit {commit()}")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES)
    note(f"- Python {platform.python_version()}, {versions}")
    nursery = Nursery(Path(tempfile.mkdtemp(prefix="tailwright-chaos-", dir=asked.folder)))
    progress(f"logs and files: {nursery.folder}")
    clean = False
    try:
        clean = bool(asked.run(asked, nursery))
    finally:
        nursery.close()
        if clean and not asked.keep:
            shutil.rmtree(nursery.folder, ignore_errors=True)
    return 0 if clean else 1


def _fuzz(asked: argparse.Namespace, nursery: Nursery) -> bool:
    outcome = asyncio.run(fuzz.run(nursery, asked.requests, asked.seed, asked.only))
    fuzz.tell(outcome)
    if asked.out:
        outcome.save(asked.out)
    return outcome.clean


def _kills(asked: argparse.Namespace, nursery: Nursery) -> bool:
    kinds: list[Kind] = [kind for kind in KINDS if asked.database in (kind, "both")]
    outcomes = []
    for kind in kinds:
        folder = nursery.folder / kind
        folder.mkdir()
        outcomes.append(kills.run(Nursery(folder, nursery.mark), kind, asked.kills // len(kinds), asked.seed))
        kills.tell(outcomes[-1])
    if asked.out:
        kills.save(outcomes, asked.out)
    return all(outcome.clean for outcome in outcomes)


def _week(asked: argparse.Namespace, nursery: Nursery) -> bool:
    outcome = asyncio.run(week.run(nursery.folder / "data", asked.nodes, asked.days, asked.interval_s, asked.seed))
    week.tell(outcome)
    if asked.out:
        outcome.save(asked.out)
    return outcome.clean


def _tls(asked: argparse.Namespace, nursery: Nursery) -> bool:
    cost = tls_cost.measure(nursery, asked.nodes, asked.seconds, asked.interval_s, asked.seed)
    if asked.out:
        cost.save(asked.out)
    return tls_cost.tell(cost)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _parser(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    measures = parser.add_subparsers(dest="measure", required=True)

    def measure(name: str, told: str) -> argparse.ArgumentParser:
        one = measures.add_parser(name, help=told, description=told)
        one.add_argument("--seed", type=int, default=1)
        one.add_argument("--out", type=Path, help="write what was found as JSON, too")
        one.add_argument("--folder", type=Path, help="where data folders and logs are made; default: the temporary one")
        one.add_argument("--keep", action="store_true", help="keep them though nothing was found")
        return one

    one = measure("fuzz", "send what nobody should to the service, the engine and the proxy")
    one.add_argument("--requests", type=int, default=100_000)
    one.add_argument("--only", metavar="SURFACE[:NUMBER]", help="one surface, or one of its requests again")
    one.set_defaults(run=_fuzz)
    one = measure("kills", "kill, hold and cut off the power of every process under load")
    one.add_argument("--kills", type=int, default=200, help="in all; half of them on each database")
    one.add_argument("--database", choices=(*KINDS, "both"), default="both")
    one.set_defaults(run=_kills)
    one = measure("week", "store, evaluator and retention driven by a clock faster than the real one")
    one.add_argument("--nodes", type=int, default=100)
    one.add_argument("--days", type=int, default=7)
    one.add_argument("--interval-s", type=int, default=60, help="simulated seconds from report to report of a node")
    one.set_defaults(run=_week)
    one = measure("tls", "the service's CPU a report with mutual TLS and without")
    one.add_argument("--nodes", type=int, default=4000)
    one.add_argument("--seconds", type=float, default=120.0, help="after all have connected")
    one.add_argument("--interval-s", type=float, default=20.0, help="from report to report of a node, on each side")
    one.set_defaults(run=_tls)
    return parser
